"use strict";
(() => {
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id), NS = "http://www.w3.org/2000/svg";
const el = (name, attrs = {}, text) => { const e = document.createElementNS(NS, name); for (const k in attrs) e.setAttribute(k, attrs[k]); if (text !== undefined) e.textContent = text; return e; };
const h = (name, attrs = {}, ...kids) => { const e = document.createElement(name); for (const k in attrs) { if (k in e && k !== "list") e[k] = attrs[k]; else e.setAttribute(k, attrs[k]); } e.append(...kids); return e; };
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const num = (x) => typeof x === "number" && isFinite(x);
const dig = (x, n = 3) => { if (!num(x)) return "-"; if (x === 0) return "0"; const p = n - 1 - Math.floor(Math.log10(Math.abs(x)) + 1e-12); return p > 0 ? x.toFixed(Math.min(p, 12)) : String(Math.round(x / 10 ** -p) * 10 ** -p); };
const STEPS = { "FLOP/s": [[1e15, "PFLOP/s"], [1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1e6, "MFLOP/s"], [1, "FLOP/s"]], "B/s": [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]], s: [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]] };
const say = (x, unit, n = 3) => { if (!num(x)) return "-"; const s = STEPS[unit].find((v) => Math.abs(x) >= v[0] * 0.9995) || STEPS[unit].at(-1); return dig(x / s[0], n) + " " + s[1]; };
const tx = (key, ...parts) => D.words[key].replace(/\{(\d)\}/g, (_, i) => parts[i]);
const pct = (x) => num(x) ? dig(x * 100) + "%" : "-";
const impls = [...new Set(D.kernels.map((k) => k.impl).concat(D.impls))];
const colour = {}; let next = 0;
for (const name of impls) colour[name] = name === D.reference && impls.length > 1 ? "var(--ref)" : "var(--s" + (next++ % 8) + ")";
const K = D.kernels.map((k, i) => ({ ...k, i }));
const picked = new Set(); let active = -1, query = "";

/* ---- roofline ---- */
const W = 960, H = 470, L = 74, R = 20, T = 16, B = 46;
const on = { level: new Set(["dram"]), pipe: new Set(D.pipes) };
const roof = Object.fromEntries(D.roofs.map((r) => [r.name, r]));
const LEVELS = ["dram", "l2", "l1"].filter((n) => roof[n] && K.some((k) => num(k.ai[n])));
if (LEVELS.length && !LEVELS.includes("dram")) on.level = new Set([LEVELS[0]]);
let view = null;
const marks = () => { const out = []; for (const k of K) if (num(k.flops) && k.flops > 0 && on.pipe.has(k.pipe)) for (const n of LEVELS) if (on.level.has(n) && k.ai[n] > 0) out.push({ k, n, x: k.ai[n], y: k.flops }); return out; };
const home = () => {
  const m = marks(), xs = m.map((p) => p.x), ys = m.map((p) => p.y);
  for (const f of D.floors) { xs.push(f.ai); ys.push(f.flops); }
  for (const c of D.pipes) if (on.pipe.has(c) && roof[c]) { ys.push(roof[c].peak * 1.6, roof[c].peak / 100); for (const n of on.level) if (roof[n]) xs.push(roof[c].peak / roof[n].peak * 4, roof[c].peak / roof[n].peak / 20); }
  if (!xs.length) xs.push(0.01, 1000); if (!ys.length) ys.push(1e9, 1e14);
  const lo = (v) => Math.log10(v.reduce((a, b) => Math.min(a, b))) - 0.35, hi = (v) => Math.log10(v.reduce((a, b) => Math.max(a, b))) + 0.3;
  return { x0: lo(xs), x1: Math.max(hi(xs), lo(xs) + 2), y0: lo(ys), y1: Math.max(hi(ys), lo(ys) + 2) };
};
const X = (v) => L + (Math.log10(v) - view.x0) / (view.x1 - view.x0) * (W - L - R);
const Y = (v) => H - B - (Math.log10(v) - view.y0) / (view.y1 - view.y0) * (H - T - B);
const plot = $("plot"), tip = $("tip");
const sup = (e) => "10" + String(e).replace(/[-0-9]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
const tick = (e) => e >= -3 && e <= 4 ? String(+(10 ** e).toPrecision(1)) : sup(e);
const shape = (n, x, y, r) => n === "l2" ? el("rect", { x: x - r * .9, y: y - r * .9, width: r * 1.8, height: r * 1.8 }) : n === "l1" ? el("path", { d: `M${x} ${y - r * 1.15}L${x + r} ${y + r * .8}L${x - r} ${y + r * .8}Z` }) : el("circle", { cx: x, cy: y, r });
function draw() {
  if (!view) view = home();
  plot.replaceChildren();
  const defs = el("defs"), clip = el("clipPath", { id: "in" }); clip.append(el("rect", { x: L, y: T, width: W - L - R, height: H - T - B })); defs.append(clip); plot.append(defs);
  const grid = el("g", { "aria-hidden": "true" }), body = el("g", { "clip-path": "url(#in)" }); plot.append(grid, body);
  const every = (a, b) => { const s = Math.max(1, Math.ceil((b - a) / 9)), o = []; for (let e = Math.ceil(a); e <= b; e += s) o.push(e); return o; };
  for (const e of every(view.x0, view.x1)) { const x = X(10 ** e); grid.append(el("line", { x1: x, x2: x, y1: T, y2: H - B, stroke: "var(--grid)" }), el("text", { x, y: H - B + 16, "text-anchor": "middle" }, tick(e))); }
  for (const e of every(view.y0, view.y1)) { const y = Y(10 ** e); grid.append(el("line", { x1: L, x2: W - R, y1: y, y2: y, stroke: "var(--grid)" }), el("text", { x: L - 6, y: y + 4, "text-anchor": "end" }, say(10 ** e * 1.0001, "FLOP/s").replace(/\.0+ /, " ").replace("FLOP/s", "").trim())); }
  grid.append(el("text", { x: (L + W - R) / 2, y: H - 8, "text-anchor": "middle" }, tx("ai")), el("text", { x: 14, y: (T + H - B) / 2, transform: `rotate(-90 14 ${(T + H - B) / 2})`, "text-anchor": "middle" }, tx("perf")));
  const pipes = D.pipes.filter((c) => on.pipe.has(c) && roof[c]), levels = LEVELS.filter((n) => on.level.has(n));
  const top = pipes.length ? Math.max(...pipes.map((c) => roof[c].peak)) : 10 ** view.y1;
  const dash = (r) => r.source === "datasheet" ? { "stroke-dasharray": "6 4" } : {};
  const bestBw = levels.length ? Math.max(...levels.map((n) => roof[n].peak)) : NaN;
  const labels = [];
  for (const c of pipes) { const r = roof[c], from = num(bestBw) ? r.peak / bestBw : 10 ** view.x0; body.append(el("line", { x1: X(Math.max(from, 10 ** (view.x0 - 1))), x2: W - R, y1: Y(r.peak), y2: Y(r.peak), stroke: "var(--roof)", "stroke-width": 1.6, ...dash(r) })); labels.push([W - R - 6, Y(r.peak) - 5, `${c} ${say(r.peak, "FLOP/s")}`, "end", 0]); }
  for (const n of levels) { const r = roof[n], xa = 10 ** (view.x0 - 2), xb = top / r.peak; body.append(el("line", { x1: X(xa), y1: Y(xa * r.peak), x2: X(xb), y2: Y(top), stroke: "var(--roof)", "stroke-width": 1.6, ...dash(r) }));
    const lx = Math.max(view.x0 + .12, view.y0 + .25 - Math.log10(r.peak)), slope = Math.atan2((H - T - B) / (view.y1 - view.y0), (W - L - R) / (view.x1 - view.x0)) * 180 / Math.PI; labels.push([X(10 ** lx), Y(10 ** lx * r.peak) - 6, `${n.toUpperCase()} ${say(r.peak, "B/s")}`, "start", -slope]); }
  const box = [];
  for (const [x, y, t, a, rot] of labels) { if (y < T + 8 || y > H - B) continue; let yy = y; while (!rot && box.some((b) => Math.abs(b - yy) < 13)) yy += 13; if (!rot) box.push(yy); body.append(el("text", { x, y: yy, "text-anchor": a, class: "rl", ...(rot ? { transform: `rotate(${rot} ${x} ${yy})` } : {}) }, t)); }
  const spots = marks().map((p) => [X(p.x), Y(p.y)]);
  for (const f of D.floors) if (num(f.ai) && num(f.flops)) {
    const x = X(f.ai), y = Y(f.flops), left = x > W - 180, a = left ? x - 125 : x + 5, b = left ? x - 5 : x + 125;
    const free = (t) => t > T + 8 && t < H - B - 4 && !box.some((r) => b > W - R - 175 && Math.abs(r - t) < 13) && !spots.some(([u, v]) => u > a - 12 && u < b + 12 && Math.abs(v - t + 4) < 16);
    const at = [18, -12, 34, -28, 50, 66, 82].map((d) => y + d).find(free) ?? y + 18;
    body.append(el("circle", { cx: x, cy: y, r: 7, class: "ghost" }), el("text", { x: x + (left ? -10 : 10), y: at, class: "rl", "text-anchor": left ? "end" : "start" }, tx("floor")));
  }
  const all = marks().sort((a, b) => (b.k.share || 0) - (a.k.share || 0));
  for (const p of all) {
    const r = 4 + 9 * Math.sqrt(Math.min(1, Math.max(0, p.k.share || 0))), m = shape(p.n, X(p.x), Y(p.y), r);
    m.setAttribute("class", "mark" + (dimmed(p.k) ? " dim" : "") + (p.k.i === active || picked.has(p.k.i) ? " on" : ""));
    m.style.fill = colour[p.k.impl]; m.dataset.k = p.k.i; m.dataset.n = p.n; body.append(m);
  }
  if (!all.length) body.append(el("text", { x: (L + W - R) / 2, y: (T + H - B) / 2, "text-anchor": "middle", class: "rl" }, D.kernels.length ? tx("noflop") : tx("nocount")));
}
const dimmed = (k) => (query && !match(k)) || (picked.size > 0 && !picked.has(k.i) && k.i !== active);
const match = (k) => (k.kernel + " " + k.impl).toLowerCase().includes(query);
const words = (k, n = "dram") => [tx("of_time", k.impl, say(k.time, "s"), pct(k.share), dig(k.launches)), tx("at", say(k.flops, "FLOP/s"), dig(k.ai[n]), n.toUpperCase(), say(k.dram, "B/s")), tx("bound", pct(k.frac), k.bound || "?")];
function show(i, n, cx, cy) {
  active = i; const k = K[i];
  for (const m of plot.querySelectorAll(".mark")) m.classList.toggle("on", +m.dataset.k === i || picked.has(+m.dataset.k));
  tip.replaceChildren(h("b", {}, k.kernel), ...words(k, n).map((t) => h("div", {}, t)));
  tip.hidden = false; const w = plot.getBoundingClientRect(), tw = tip.offsetWidth, th = tip.offsetHeight;
  tip.style.left = Math.max(0, Math.min(cx + 14, w.width - tw)) + "px"; tip.style.top = (cy + th + 16 > w.height ? Math.max(0, cy - th - 12) : cy + 14) + "px";
}
const hide = () => { tip.hidden = true; };
const at = (e) => { const w = plot.getBoundingClientRect(); return [e.clientX - w.left, e.clientY - w.top, w.width / W]; };
let drag = null;
plot.addEventListener("pointermove", (e) => {
  const [cx, cy, s] = at(e);
  if (drag) { const dx = (cx - drag.x) / s / (W - L - R) * (drag.v.x1 - drag.v.x0), dy = (cy - drag.y) / s / (H - T - B) * (drag.v.y1 - drag.v.y0); drag.moved = drag.moved || Math.abs(cx - drag.x) + Math.abs(cy - drag.y) > 4; view = { x0: drag.v.x0 - dx, x1: drag.v.x1 - dx, y0: drag.v.y0 + dy, y1: drag.v.y1 + dy }; if (drag.moved) { hide(); draw(); } return; }
  const m = e.target.closest && e.target.closest(".mark"); if (m) show(+m.dataset.k, m.dataset.n, cx, cy); else if (!plot.matches(":focus-visible")) hide();
});
plot.addEventListener("pointerleave", () => { if (!drag) hide(); });
plot.addEventListener("pointerdown", (e) => { const [x, y] = at(e), m = e.target.closest(".mark"); drag = { x, y, v: { ...view }, moved: false, k: m ? +m.dataset.k : -1 }; });
window.addEventListener("pointerup", () => { if (drag && !drag.moved && drag.k >= 0) pick(drag.k); drag = null; });
const zoom = (f, fx = .5, fy = .5) => { const w = view.x1 - view.x0, g = view.y1 - view.y0, x = view.x0 + w * fx, y = view.y0 + g * fy; if (w * f < .2 || w * f > 24) return; view = { x0: x - w * f * fx, x1: x + w * f * (1 - fx), y0: y - g * f * fy, y1: y + g * f * (1 - fy) }; hide(); draw(); };
plot.addEventListener("wheel", (e) => { e.preventDefault(); const [cx, cy, s] = at(e); zoom(e.deltaY > 0 ? 1.2 : 1 / 1.2, (cx / s - L) / (W - L - R), 1 - (cy / s - T) / (H - T - B)); }, { passive: false });
const reset = () => { view = null; hide(); draw(); };
plot.addEventListener("keydown", (e) => {
  const order = [...new Set(marks().sort((a, b) => (b.k.time || 0) - (a.k.time || 0)).map((p) => p.k.i))];
  const go = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  if (go && order.length) { const at_ = order.indexOf(active), i = order[(at_ + go + order.length) % order.length], p = marks().find((q) => q.k.i === i), s = plot.getBoundingClientRect().width / W; show(i, p.n, X(p.x) * s, Y(p.y) * s); $("live").textContent = K[i].kernel + ": " + words(K[i], p.n).join("; "); e.preventDefault(); }
  else if (e.key === "Enter" && active >= 0) { pick(active); e.preventDefault(); }
  else if (e.key === "+" || e.key === "=") zoom(1 / 1.3); else if (e.key === "-") zoom(1.3); else if (e.key === "0") reset(); else if (e.key === "Escape") { hide(); picked.clear(); mark(); draw(); }
});
function pick(i) { picked.has(i) ? picked.delete(i) : picked.add(i); mark(); draw(); $("live").textContent = (picked.has(i) ? tx("picked") : tx("unpicked")) + " " + K[i].kernel + ": " + words(K[i]).join("; "); }
function controls() {
  const c = $("controls"), group = (title, names, set, text) => { const f = h("fieldset", {}, h("legend", {}, title)); for (const n of names) { const b = h("input", { type: "checkbox", checked: set.has(n), id: "t-" + n }); b.addEventListener("change", () => { b.checked ? set.add(n) : set.delete(n); reset(); }); f.append(h("label", {}, b, " " + text(n))); } c.append(f); };
  if (LEVELS.length) group(tx("memory"), LEVELS, on.level, (n) => ({ dram: "● DRAM", l2: "■ L2", l1: "▲ L1" }[n]));
  if (D.pipes.length) group(tx("precision"), D.pipes, on.pipe, (n) => n);
  const key = h("fieldset", {}, h("legend", {}, tx("colour"))); for (const n of impls) key.append(h("span", {}, h("span", { className: "dot", style: `background:${colour[n]}` }), n + " ")); c.append(key);
  for (const [t, f] of [[tx("in"), () => zoom(1 / 1.4)], [tx("out"), () => zoom(1.4)], [tx("all"), reset], [tx("unpick"), () => { picked.clear(); mark(); draw(); }]]) { const b = h("button", { type: "button", className: "b" }, t); b.addEventListener("click", f); c.append(b); }
}
/* kernels without FLOP have no place on a log axis: their bandwidth as bars */
function bars() {
  const none = K.filter((k) => !(k.flops > 0) && num(k.dram) && num(k.time)).sort((a, b) => b.time - a.time); if (!none.length) return;
  const box = $("strip"), peak = roof.dram ? roof.dram.peak : NaN, most = Math.max(...none.map((k) => k.dram));
  box.append(h("h3", {}, tx("bars") + (num(peak) ? tx("of", say(peak, "B/s")) : "")));
  for (const k of none.slice(0, 20)) { const f = k.dram / (num(peak) ? peak : most); box.append(h("div", { className: "bar" }, h("span", { title: k.kernel }, h("span", { className: "dot", style: `background:${colour[k.impl]}` }), `${k.impl}: ${k.kernel}`), h("span", { className: "t" }, h("i", { style: `width:${Math.min(100, f * 100)}%;background:${colour[k.impl]}` })), h("span", {}, `${say(k.dram, "B/s")}, ${pct(f)}`))); }
  if (none.length > 20) box.append(h("p", { className: "note" }, tx("more", none.length - 20)));
}

/* ---- table ---- */
const scaled = (unit, get) => { const v = K.map(get).filter(num).map(Math.abs), top = v.length ? v.reduce((a, b) => Math.max(a, b)) : 0, s = STEPS[unit].find((x) => top >= x[0]) || STEPS[unit].at(-1); return { label: s[1], cell: (x) => num(x) ? dig(x / s[0]) : "-" }; };
const tm = scaled("s", (k) => k.time), fl = scaled("FLOP/s", (k) => k.flops), bw = scaled("B/s", (k) => k.dram);
const COLS = [[tx("impl"), (k) => k.impl, null, "l"], [tx("kernel"), (k) => k.kernel, null, "name l"], [tx("launches"), (k) => k.launches, dig], [tx("share"), (k) => k.share, pct], [`${tx("time")} [${tm.label}]`, (k) => k.time, tm.cell], [fl.label, (k) => k.flops, fl.cell], [`DRAM [${bw.label}]`, (k) => k.dram, bw.cell], [tx("dramf"), (k) => k.dramf, pct], ["FLOP/B", (k) => k.ai.dram, dig], [tx("frac"), (k) => k.frac, pct], [tx("occ"), (k) => k.occ, pct], [tx("boundby"), (k) => k.bound, null, "l"]];
const rows = []; let sorted = { c: 4, dir: -1 };
function table() {
  const tr = h("tr"); COLS.forEach((c, i) => { const b = h("button", { type: "button" }, c[0]), th = h("th", { scope: "col", className: c[3] || "" }, b); b.addEventListener("click", () => { sorted = { c: i, dir: sorted.c === i ? -sorted.dir : c[2] ? -1 : 1 }; order(); }); tr.append(th); });
  document.querySelector("#table thead").append(tr);
  for (const k of K) { const r = h("tr"); for (const [, get, fmt, cls] of COLS) { const td = h("td", { className: cls || "" }); if (cls === "name l") { const b = h("button", { type: "button", className: "pick", title: k.kernel }, k.kernel); b.setAttribute("aria-pressed", "false"); b.addEventListener("click", () => pick(k.i)); td.append(b); } else if (get === COLS[0][1]) td.append(h("span", { className: "dot", style: `background:${colour[k.impl]}` }), k.impl); else td.textContent = fmt ? fmt(get(k)) : get(k) || "-"; r.append(td); } rows.push(r); }
  order();
}
function order() {
  const get = COLS[sorted.c][1], text = !COLS[sorted.c][2];
  const list = K.map((k) => k.i).sort((a, b) => { const x = get(K[a]), y = get(K[b]); if (text) return sorted.dir * String(x || "").localeCompare(String(y || "")) || a - b; if (!num(x) || !num(y)) return num(x) ? -1 : num(y) ? 1 : a - b; return sorted.dir * (x - y) || a - b; });
  const shown = list.filter((i) => !query || match(K[i]));
  fill(shown);
  document.querySelectorAll("#table th").forEach((th, i) => { if (i === sorted.c) th.setAttribute("aria-sort", sorted.dir > 0 ? "ascending" : "descending"); else th.removeAttribute("aria-sort"); });
  $("count").textContent = tx("count", shown.length, K.length);
}
/* what fits a screen at once, the rest after the frame that shows it */
const FIRST = 60; let filling = 0;
function fill(shown) {
  const body = document.querySelector("#table tbody"), turn = ++filling;
  body.replaceChildren(...shown.slice(0, FIRST).map((i) => rows[i]));
  const rest = () => { if (turn !== filling) return; body.append(...shown.slice(FIRST).map((i) => rows[i])); ready(); };
  if (shown.length > FIRST) requestAnimationFrame(() => setTimeout(rest)); else ready();
}
function ready() { if (document.documentElement.dataset.ready) return; performance.mark("ready"); document.documentElement.dataset.ready = "1"; }
function mark() { rows.forEach((r, i) => { r.classList.toggle("picked", picked.has(i)); r.querySelector(".pick").setAttribute("aria-pressed", String(picked.has(i))); }); }
$("filter").addEventListener("input", (e) => { query = e.target.value.trim().toLowerCase(); order(); draw(); });

/* ---- times ---- */
function strips() {
  const box = $("strips"), sets = D.timings; if (!sets.length) { box.append(h("p", { className: "note" }, tx("nottimed"))); return; }
  const q = (v, p) => { const i = (v.length - 1) * p, a = Math.floor(i), b = Math.ceil(i); return v[a] + (v[b] - v[a]) * (i - a); };
  for (const s of sets) {
    const v = [...s.seconds].sort((a, b) => a - b), med = q(v, .5), lo = v[0], hi = v.at(-1), pad = (hi - lo) * .05 || med * .01, x = (t) => 14 + (t - lo + pad) / (hi - lo + 2 * pad) * 932;
    const svg = el("svg", { viewBox: "0 0 960 96", role: "img", "aria-label": tx("samples_label", s.impl, s.method, v.length, say(med, "s"), say(q(v, .25), "s"), say(q(v, .75), "s"), say(lo, "s"), say(hi, "s")) });
    const bins = Math.min(40, Math.max(8, Math.ceil(Math.sqrt(v.length) * 2))), count = Array(bins).fill(0); for (const t of v) count[Math.min(bins - 1, Math.floor((t - lo) / (hi - lo || 1) * bins))]++;
    const top = Math.max(...count), bwid = (x(hi) - x(lo)) / bins; count.forEach((c, i) => { if (c) svg.append(el("rect", { x: x(lo) + i * bwid, y: 52 - 44 * c / top, width: Math.max(1, bwid - 1), height: 44 * c / top, style: `fill:${colour[s.impl]};fill-opacity:.35` })); });
    v.forEach((t, i) => svg.append(el("circle", { cx: x(t), cy: 60 + (i * 7 % 13), r: 2, style: `fill:${colour[s.impl]};fill-opacity:.6` })));
    svg.append(el("line", { x1: x(med), x2: x(med), y1: 4, y2: 76, stroke: "var(--fg)", "stroke-width": 1.5 }));
    svg.append(el("line", { x1: 14, x2: 946, y1: 77, y2: 77, stroke: "var(--line)" }));
    for (const [t, a] of [[lo, "start"], [hi, "end"]]) svg.append(el("text", { x: x(t), y: 91, "text-anchor": a, style: "fill:var(--muted)" }, say(t, "s", 4)));
    if (Math.abs(x(med) - x(lo)) > 70 && Math.abs(x(hi) - x(med)) > 70) svg.append(el("text", { x: x(med), y: 91, "text-anchor": "middle", style: "fill:var(--fg)" }, say(med, "s", 4)));
    box.append(h("h3", {}, h("span", { className: "dot", style: `background:${colour[s.impl]}` }), tx("samples", s.impl, say(med, "s"), v.length, s.method)), svg);
  }
}
if (K.length && !D.floors.length && !K.some((k) => k.flops > 0)) for (const e of [document.querySelector(".plot"), $("plot-help"), $("controls")]) e.hidden = true;
controls(); draw(); bars(); strips(); table();
})();
