/* what all parts of the page share: data, words in the chosen language, numbers, shapes, and what is chosen */
const D = JSON.parse(document.getElementById("data").textContent), ROOT = document.documentElement;
const $ = (id) => document.getElementById(id), NS = "http://www.w3.org/2000/svg";
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const el = (name, attrs = {}, text) => {
  const e = document.createElementNS(NS, name);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  return e;
};
const h = (name, attrs = {}, ...kids) => {
  const e = document.createElement(name);
  for (const k in attrs) { if (k in e && k !== "list") e[k] = attrs[k]; else e.setAttribute(k, attrs[k]); }
  e.append(...kids);
  return e;
};
const button = (text, act, attrs = {}) => {
  const b = h("button", { type: "button", className: "b", ...attrs }, text);
  b.addEventListener("click", act);
  return b;
};
const download = (blob, name) => { const a = h("a", { href: URL.createObjectURL(blob), download: name }); a.click(); setTimeout(() => URL.revokeObjectURL(a.href), 1000); };
/* a button that puts a command or a name into the clipboard */
const copier = (text) => {
  const b = button(tx("copy"), async () => { await navigator.clipboard.writeText(text); b.textContent = tx("copied"); setTimeout(() => { b.textContent = tx("copy"); }, 1500); }, { title: text });
  return b;
};
const mine = (pair) => pair[ROOT.lang === "en" ? 0 : 1];
const put = (text, parts) => text.replace(/\{(\d)\}/g, (_, i) => parts[i]);
const tx = (key, ...parts) => put(D.words[ROOT.lang][key], parts);
/* a word about kernels: the page's own where its kernels are those of one step, else the script's */
const ty = (key, ...parts) => (D.heads[key] ? put(mine(D.heads[key]), parts) : tx(key, ...parts));
const num = (x) => typeof x === "number" && isFinite(x);
const dig = (x, n = 3) => {
  if (!num(x)) return "-";
  if (x === 0) return "0";
  const p = n - 1 - Math.floor(Math.log10(Math.abs(x)) + 1e-12);
  return p > 0 ? x.toFixed(Math.min(p, 12)) : String(Math.round(x / 10 ** -p) * 10 ** -p);
};
const whole = (x) => Number.isInteger(x) ? String(x) : dig(x);
const STEPS = {
  "FLOP/s": [[1e15, "PFLOP/s"], [1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1e6, "MFLOP/s"], [1, "FLOP/s"]],
  "B/s": [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]],
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]],
};
const say = (x, unit, n = 3) => {
  if (!num(x)) return "-";
  if (x === 0) return "0 " + STEPS[unit].at(-1)[1];
  const s = STEPS[unit].find((v) => Math.abs(x) >= v[0] * 0.9995) || STEPS[unit].at(-1);
  return dig(x / s[0], n) + " " + s[1];
};
const pct = (x) => num(x) ? dig(x * 100) + "%" : "-";

const PARTS = Object.fromEntries(D.parts.map((p) => [p.name, p]));
const colour = (name) => { const p = PARTS[name]; return !p || p.colour < 0 ? "var(--ref)" : `var(--s${p.colour % 8})`; };
/* eight outlines, so that marks are told apart without their colour; the reference is the circle */
const POLYGONS = [
  null, [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]], [[-.95, -.95], [.95, -.95], [.95, .95], [-.95, .95]],
  [[0, -1.2], [1.15, .85], [-1.15, .85]], [[0, 1.2], [1.15, -.85], [-1.15, -.85]],
  [[-.4, -1.2], [.4, -1.2], [.4, -.4], [1.2, -.4], [1.2, .4], [.4, .4], [.4, 1.2], [-.4, 1.2], [-.4, .4], [-1.2, .4], [-1.2, -.4], [-.4, -.4]],
  [[-.55, -1.05], [.55, -1.05], [1.15, 0], [.55, 1.05], [-.55, 1.05], [-1.15, 0]],
  [[0, -1.35], [.34, -.42], [1.3, -.42], [.52, .16], [.8, 1.1], [0, .54], [-.8, 1.1], [-.52, .16], [-1.3, -.42], [-.34, -.42]],
];
const outline = (name, x, y, r) => {
  const shape = POLYGONS[PARTS[name] ? PARTS[name].shape : 0];
  if (!shape) return el("circle", { cx: x, cy: y, r });
  return el("path", { d: "M" + shape.map(([a, b]) => `${(x + a * r).toFixed(1)} ${(y + b * r).toFixed(1)}`).join("L") + "Z" });
};
const key = (name) => {
  const svg = el("svg", { class: "key", viewBox: "0 0 14 14", "aria-hidden": "true" }), mark = outline(name, 7, 7, 5);
  mark.style.fill = colour(name);
  svg.append(mark);
  return svg;
};

const K = D.kernels.map((k, i) => ({ ...k, i }));
const roof = Object.fromEntries(D.roofs.map((r) => [r.name, r]));
const picked = new Set();
const live = (text) => { $("live").textContent = text; };
const words = (k, n = "dram") => [
  ty("of_time", k.impl, say(k.time, "s"), pct(k.share), whole(k.launches)),
  ...(k.flops > 0 ? [tx("at", say(k.flops, "FLOP/s"), dig(k.ai[n]), n.toUpperCase())] : []),
  ...(num(k.dram) ? [tx("moves", say(k.dram, "B/s"), pct(k.dramf))] : []),
  ...(num(k.frac) ? [tx("bound", pct(k.frac), mine(k.roof), mine(k.bound) || "?")] : []),
];

/* one kernel or none is chosen; the plot, the table, the waterfall and the findings follow */
function choose(i, finding = "") {
  picked.clear();
  if (i >= 0) { picked.add(i); on.part.add(K[i].impl); bars(); }
  follow(finding);
}
function follow(finding = "") {
  for (const row of all(".row[data-kernel]")) {
    const hit = (finding && row.dataset.finding === finding) || (picked.size > 0 && picked.has(+row.dataset.kernel));
    row.setAttribute("aria-pressed", String(Boolean(hit)));
  }
  for (const one of all(".finding")) one.classList.toggle("on", one.id === finding);
  const one = finding && $(finding);
  if (one) { const fold = one.closest("details.of"); if (fold) fold.open = true; }
  marked(); controls(); draw(); remember();
  live([...picked].map((i) => `${K[i].short}: ${words(K[i]).join(tx("semicolon"))}`).join(" ") || (one ? one.querySelector(".title").textContent : ""));
}
/* an option such as --ncu is no place to break a line at */
const option = /(--[a-z][\w-]*)/, walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
while (walk.nextNode()) if (option.test(walk.currentNode.data) && walk.currentNode.parentNode.matches("code,p,dd,a,li,span,h3,b")) texts.push(walk.currentNode);
for (const node of texts) node.replaceWith(...node.data.split(option).map((part, at) => at % 2 ? h("span", { className: "option" }, part) : part));
