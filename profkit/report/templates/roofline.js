/* ---- the roofline ---- */
const plot = $("plot"), tip = $("tip");
const LEVELS = ["dram", "l2", "l1"].filter((n) => roof[n] && K.some((k) => num(k.ai[n])));
const on = {
  level: new Set(LEVELS.includes("dram") ? ["dram"] : LEVELS.slice(0, 1)),
  pipe: new Set(D.pipes), part: new Set(D.parts.filter((p) => p.on).map((p) => p.name)), cover: 100, alone: false,
};
let view = null, active = -1, query = "", W = 960, H = 480;
const L = 64, R = 16, T = 14, B = 44;
const match = (k) => (k.kernel + " " + k.short + " " + k.impl).toLowerCase().includes(query);

/* the share of a part, or of all ranges, that the longer kernels make up, by kernel */
const covers = (() => {
  const sums = {}, reach = {};
  for (const k of [...K].sort((a, b) => (b.share || 0) - (a.share || 0))) { const of = D.ranged ? "" : k.impl; reach[k.i] = sums[of] || 0; sums[of] = reach[k.i] + (k.share || 0); }
  return reach;
})();
const chosen = (k) => on.part.has(k.impl) && covers[k.i] < on.cover / 100 && (!on.alone || !picked.size || picked.has(k.i));
const drawn = (k) => on.pipe.has(k.pipe) && chosen(k);
function marks() {
  const out = [];
  for (const k of K) if (num(k.flops) && k.flops > 0 && drawn(k)) for (const n of LEVELS) if (on.level.has(n) && k.ai[n] > 0) out.push({ k, n, x: k.ai[n], y: k.flops });
  return out;
}
function home() {
  const m = marks(), xs = m.map((p) => p.x), ys = m.map((p) => p.y), pipes = shownPipes();
  for (const f of D.lower_bounds) if (!on.alone) { xs.push(f.ai); ys.push(f.flops); }
  for (const c of pipes) {
    ys.push(roof[c].peak * 1.5);
    for (const n of on.level) if (roof[n]) xs.push(roof[c].peak / roof[n].peak / 3, roof[c].peak / roof[n].peak * 3);
  }
  if (!xs.length) xs.push(0.01, 1000);
  if (!ys.length) ys.push(1e9, 1e14);
  const lo = (v) => Math.log10(v.reduce((a, b) => Math.min(a, b))) - .45, hi = (v) => Math.log10(v.reduce((a, b) => Math.max(a, b))) + .3;
  return { x0: lo(xs), x1: Math.max(hi(xs), lo(xs) + 2), y0: lo(ys), y1: Math.max(hi(ys), lo(ys) + 2) };
}
const shownPipes = () => {
  const used = new Set([...marks().map((p) => p.k.pipe), ...D.lower_bounds.map((f) => f.pipe)]);
  return D.pipes.filter((c) => on.pipe.has(c) && roof[c] && used.has(c));
};
const X = (v) => L + (Math.log10(v) - view.x0) / (view.x1 - view.x0) * (W - L - R);
const Y = (v) => H - B - (Math.log10(v) - view.y0) / (view.y1 - view.y0) * (H - T - B);
const sup = (e) => "10" + String(e).replace(/[-0-9]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
const tick = (e) => e >= -3 && e <= 4 ? String(+(10 ** e).toPrecision(1)) : sup(e);
const radius = (k) => 5 + 9 * Math.sqrt(Math.min(1, Math.max(0, k.share || 0)));
const rank = (k) => k.impl === D.best ? 2 : PARTS[k.impl].colour < 0 ? 1 : 0;
const front = (k) => (picked.has(k.i) ? 4 : 0) + rank(k);

const pen = document.createElement("canvas").getContext("2d");
const wide = (text, size, weight = 400) => { pen.font = `${weight} ${size}px system-ui,sans-serif`; return pen.measureText(text).width; };
const apart = (a, b) => a.x + a.w < b.x || b.x + b.w < a.x || a.y + a.h < b.y || b.y + b.h < a.y;

function draw() {
  if ($("plotbox").hidden) return;
  W = Math.max(320, $("plotbox").clientWidth || 960);
  H = Math.round(Math.min(540, Math.max(330, W * .5)));
  if (!view) view = home();
  plot.setAttribute("viewBox", `0 0 ${W} ${H}`);
  plot.replaceChildren();
  const defs = el("defs"), clip = el("clipPath", { id: "in" });
  clip.append(el("rect", { x: L, y: T, width: W - L - R, height: H - T - B }));
  defs.append(clip);
  const body = el("g", { "clip-path": "url(#in)" }), top = el("g");
  plot.append(defs, axes(), body, top);
  const shown = marks().sort((a, b) => front(a.k) - front(b.k) || (b.k.share || 0) - (a.k.share || 0));
  const taken = roofs(body, top, shown);
  lower_bounds(body, top, taken, shown);
  joins(body, shown);
  for (const p of shown) {
    const m = outline(p.k.impl, X(p.x), Y(p.y), radius(p.k));
    m.setAttribute("class", "mark" + (p.n === "dram" ? "" : " far") + (dimmed(p.k) ? " dim" : "") + (p.k.i === active || picked.has(p.k.i) ? " on" : ""));
    m.style.fill = colour(p.k.impl);
    m.dataset.k = p.k.i;
    m.dataset.n = p.n;
    body.append(m);
    if (p.n !== on.level.values().next().value || on.level.size > 1) levelName(top, p);
  }
  labels(top, shown, taken);
  if (!shown.length) plot.append(el("text", { x: (L + W - R) / 2, y: (T + H - B) / 2, "text-anchor": "middle", class: "rl" }, K.length ? tx("noflop") : tx("nocount")));
}
const dimmed = (k) => (query && !match(k)) || (picked.size > 0 && !picked.has(k.i) && k.i !== active);
function levelName(top, p) {
  if (on.level.size < 2) return;
  top.append(el("text", { x: X(p.x), y: Y(p.y) + 3.5, "text-anchor": "middle", class: "lv" }, { dram: "D", l2: "2", l1: "1" }[p.n]));
}
/* levels that no mark is placed at, but whose ceiling a name's share is of */
const quoted = (shown) => LEVELS.filter((n) => !on.level.has(n) && shown.some((p) => p.k.of === n));
function axes() {
  const g = el("g", { class: "axes" });
  const xs = W < 560 ? 2 : 1;
  for (let e = Math.ceil(view.x0); e <= view.x1; e++) {
    g.append(el("line", { x1: X(10 ** e), x2: X(10 ** e), y1: T, y2: H - B, class: "grid" }));
    if (e % xs === 0) g.append(el("text", { x: X(10 ** e), y: H - B + 16, "text-anchor": "middle" }, tick(e)));
  }
  for (let e = Math.ceil(view.y0); e <= view.y1; e++) {
    g.append(el("line", { x1: L, x2: W - R, y1: Y(10 ** e), y2: Y(10 ** e), class: "grid" }));
    g.append(el("text", { x: L - 6, y: Y(10 ** e) + 4, "text-anchor": "end" }, sup(e)));
  }
  g.append(el("path", { d: `M${L} ${T}V${H - B}H${W - R}`, class: "frame" }));
  g.append(el("text", { x: (L + W - R) / 2, y: H - 8, "text-anchor": "middle" }, tx("ai")));
  g.append(el("text", { x: 13, y: (T + H - B) / 2, "text-anchor": "middle", transform: `rotate(-90 13 ${(T + H - B) / 2})` }, tx("perf")));
  return g;
}
function roofs(body, top, shown) {
  const pipes = shownPipes(), levels = LEVELS.filter((n) => on.level.has(n)), taken = [];
  const most = pipes.length ? Math.max(...pipes.map((c) => roof[c].peak)) : 10 ** view.y1;
  const dash = (r) => r.source === "datasheet" ? { "stroke-dasharray": "6 4" } : {};
  const fast = levels.length ? Math.max(...levels.map((n) => roof[n].peak)) : NaN;
  const line = (r, x1, y1, x2, y2, thin) => body.append(el("line", { x1: X(x1), y1: Y(y1), x2: X(x2), y2: Y(y2), class: thin ? "roof thin" : "roof", ...dash(r) }));
  const dots = [...shown.map((p) => [X(p.x), Y(p.y), radius(p.k)]), ...D.lower_bounds.map((one) => [X(one.ai), Y(one.flops), 8])];
  const met = (s) => taken.some((b) => !apart(b, s)) || dots.some(([px, py, pr]) => !apart(s, { x: px - pr, y: py - pr, w: 2 * pr, h: 2 * pr }));
  for (const c of pipes) {
    const r = roof[c], text = `${c} ${say(r.peak, "FLOP/s")}`;
    line(r, num(fast) ? r.peak / fast : 10 ** view.x0, r.peak, 10 ** (view.x1 + 1), r.peak);
    const y = Y(r.peak) - 6, w = wide(text, 11.5);
    if (y < T + 8 || y > H - B) continue;
    /* at the right end, or as far left of it as keeps it off marks and other names, but on its ceiling */
    const box = (x) => ({ x: x - w, y: y - 11, w, h: 13 });
    let x = W - R - 6;
    while (met(box(x)) && x - w > Math.max(L + 8, num(fast) ? X(r.peak / fast) : L)) x -= 8;
    if (met(box(x))) x = W - R - 6;
    taken.push(box(x));
    top.append(el("text", { x, y, "text-anchor": "end", class: "rl" }, text));
  }
  for (const c of pipes) for (const n of levels) body.append(el("circle", { cx: X(roof[c].peak / roof[n].peak), cy: Y(roof[c].peak), r: 3, class: "ridge" }));
  for (const n of [...levels, ...quoted(shown)]) {
    const r = roof[n], x0 = 10 ** (view.x0 - 2), text = `${n.toUpperCase()} ${say(r.peak, "B/s")}`;
    line(r, x0, x0 * r.peak, most / r.peak, most, !on.level.has(n));
    const slope = Math.atan2((H - T - B) / (view.y1 - view.y0), (W - L - R) / (view.x1 - view.x0)), w = wide(text, 11.5);
    /* at the lower end of the line, or as far up it as keeps the name off marks and other names; none where no line is in view */
    const first = Math.max(X(10 ** view.x0) + 8, X(10 ** (view.y0 + .2) / r.peak)), last = X(most / r.peak) - w * Math.cos(slope);
    const boxes = (x, y) => [0, 1, 2, 3].map((s) => ({ x: x + w * s / 4 * Math.cos(slope), y: y - w * (s + 1) / 4 * Math.sin(slope) - 8, w: w / 4, h: w / 4 * Math.sin(slope) + 12 }));
    const up = (x) => Y(most) - 6 + (X(most / r.peak) - x) * Math.tan(slope);
    let x = first;
    while (boxes(x, up(x)).some(met) && x < last) x += 8;
    if (x > last) x = first;
    if (first > last + w * Math.cos(slope) / 2 || up(x) < T + 8) continue;
    top.append(el("text", { x, y: up(x), class: "rl", transform: `rotate(${-slope * 180 / Math.PI} ${x} ${up(x)})` }, text));
    taken.push(...boxes(x, up(x)));
  }
  return taken;
}
function lower_bounds(body, top, taken, shown) {
  if (on.alone && picked.size) return;
  for (const f of D.lower_bounds) {
    if (!num(f.ai) || !num(f.flops) || !on.pipe.has(f.pipe)) continue;
    const x = X(f.ai), y = Y(f.flops);
    body.append(el("circle", { cx: x, cy: y, r: 7, class: "ghost" }));
    place(top, taken, shown, x, y, 8, [tx("lower_bound")], "rl");
  }
}
function joins(body, shown) {
  const groups = new Map();
  for (const p of shown) groups.set(p.k.i, [...(groups.get(p.k.i) || []), p]);
  for (const ps of groups.values()) if (ps.length > 1) {
    const xs = ps.map((p) => X(p.x));
    body.append(el("line", { x1: Math.min(...xs), x2: Math.max(...xs), y1: Y(ps[0].y), y2: Y(ps[0].y), class: "join" + (dimmed(ps[0].k) ? " dim" : ""), style: `stroke:${colour(ps[0].k.impl)}` }));
  }
}
/* names beside the marks, the most important first; a leader where one had to move away, none where there is no room */
function labels(top, shown, taken) {
  const seen = new Set(), small = W < 600, most = small ? 5 : 14;
  const order = [...shown].sort((a, b) => front(b.k) - front(a.k) || (b.k.share || 0) - (a.k.share || 0));
  for (const p of order) {
    if (seen.has(p.k.i) || seen.size >= most || (dimmed(p.k) && !picked.has(p.k.i))) continue;
    seen.add(p.k.i);
    const lines = [p.k.short.length > 40 ? p.k.short.slice(0, 39) + "…" : p.k.short];
    if (!small || picked.has(p.k.i)) lines.push(tx("label", pct(p.k.share), pct(p.k.frac), mine(p.k.roof)));
    place(top, taken, shown, X(p.x), Y(p.y), radius(p.k), lines, "nm" + (p.k.impl === D.best ? " best" : ""), picked.has(p.k.i));
  }
}
/* whether a ceiling runs through a text's box: the flat part of a pipe's right of its ridge, a memory's up to the highest */
const crossed = (s, shown) => {
  const pipes = shownPipes(), levels = LEVELS.filter((n) => on.level.has(n)), end = s.x + s.w;
  const fast = Math.max(...levels.map((n) => roof[n].peak)), most = Math.max(...pipes.map((c) => roof[c].peak));
  const at_ = (px) => 10 ** (view.x0 + (px - L) / (W - L - R) * (view.x1 - view.x0));
  const over = (r) => Y(r.peak) > s.y && Y(r.peak) < s.y + s.h && (!levels.length || end > X(r.peak / fast));
  const along = (r) => { const last = pipes.length ? Math.min(end, X(most / r.peak)) : end; return last > s.x && Y(at_(s.x) * r.peak) > s.y && Y(at_(last) * r.peak) < s.y + s.h; };
  return pipes.some((c) => over(roof[c])) || [...levels, ...quoted(shown)].some((n) => along(roof[n]));
};
function place(top, taken, shown, x, y, r, lines, cls, must = false) {
  const w = Math.max(...lines.map((t, i) => i ? wide(t, 10.5) : wide(t, 11.5, cls.endsWith("best") ? 700 : 400))) + 4, hh = 14 * lines.length;
  const spots = [];
  for (const d of [6, 20, 38, 60, 90, 125, 160]) for (const [a, b] of [[1, 0], [-1, 0], [.8, -1], [.8, 1], [-.8, -1], [-.8, 1], [0, -1.2], [0, 1.2]]) {
    const cx = x + a * (r + d), cy = y + b * (r + d * .8);
    spots.push({ x: a > .1 ? cx : a < -.1 ? cx - w : cx - w / 2, y: cy - hh / 2, w, h: hh, d });
  }
  const inside = (s) => s.x > L + 2 && s.x + s.w < W - R - 2 && s.y > T + 1 && s.y + s.h < H - B - 2;
  const clear = (s) => !taken.some((t) => !apart(s, t)) && !shown.some((p) => { const px = X(p.x), py = Y(p.y), pr = radius(p.k); return !apart(s, { x: px - pr, y: py - pr, w: 2 * pr, h: 2 * pr }); });
  /* near its mark, no ceiling through it, and no other mark nearer to it */
  const far = (one, px, py) => Math.hypot(Math.max(one.x - px, 0, px - one.x - one.w), Math.max(one.y - py, 0, py - one.y - one.h));
  const strange = (one) => shown.some((p) => Math.abs(X(p.x) - x) + Math.abs(Y(p.y) - y) > 1 && far(one, X(p.x), Y(p.y)) - radius(p.k) < far(one, x, y) - r + 2);
  const cost = (one) => one.d + (crossed(one, shown) ? 80 : 0) + (strange(one) ? 34 : 0);
  const fit = spots.filter((one) => inside(one) && clear(one)).map((one) => [cost(one), one]).sort((a, b) => a[0] - b[0]);
  const s = fit.length ? fit[0][1] : must ? spots.find(inside) : null;
  if (!s) return;
  taken.push(s);
  if (s.d > 10 || strange(s)) top.append(el("line", { x1: x, y1: y, x2: Math.max(s.x, Math.min(s.x + s.w, x)), y2: Math.max(s.y, Math.min(s.y + s.h, y)), class: "lead" }));
  lines.forEach((t, i) => top.append(el("text", { x: s.x + 2, y: s.y + 11 + 14 * i, class: i ? "nm sub" : cls }, t)));
}

/* ---- pointing, zooming, keys ---- */
function show(i, n, cx, cy) {
  active = i;
  const k = K[i];
  for (const m of all(".mark", plot)) m.classList.toggle("on", +m.dataset.k === i || picked.has(+m.dataset.k));
  tip.replaceChildren(h("b", {}, k.kernel), ...words(k, n).map((t) => h("div", {}, t)));
  tip.hidden = false;
  const w = plot.getBoundingClientRect(), th = tip.offsetHeight;
  tip.style.left = Math.max(0, Math.min(cx + 14, w.width - tip.offsetWidth)) + "px";
  tip.style.top = (cy + th + 16 > w.height ? Math.max(0, cy - th - 12) : cy + 14) + "px";
}
const hide = () => { tip.hidden = true; };
const at = (e) => { const w = plot.getBoundingClientRect(); return [e.clientX - w.left, e.clientY - w.top, w.width / W]; };
let drag = null;
plot.addEventListener("pointermove", (e) => {
  const [cx, cy, s] = at(e);
  if (drag) {
    const dx = (cx - drag.x) / s / (W - L - R) * (drag.v.x1 - drag.v.x0), dy = (cy - drag.y) / s / (H - T - B) * (drag.v.y1 - drag.v.y0);
    drag.moved = drag.moved || Math.abs(cx - drag.x) + Math.abs(cy - drag.y) > 4;
    view = { x0: drag.v.x0 - dx, x1: drag.v.x1 - dx, y0: drag.v.y0 + dy, y1: drag.v.y1 + dy };
    if (drag.moved) { hide(); draw(); }
    return;
  }
  const m = e.target.closest && e.target.closest(".mark");
  if (m) show(+m.dataset.k, m.dataset.n, cx, cy); else if (!plot.matches(":focus-visible")) hide();
});
plot.addEventListener("pointerleave", () => { if (!drag) hide(); });
plot.addEventListener("pointerdown", (e) => {
  const [x, y] = at(e), m = e.target.closest(".mark");
  drag = { x, y, v: { ...view }, moved: false, k: m ? +m.dataset.k : -1 };
});
window.addEventListener("pointerup", () => { if (drag && !drag.moved && drag.k >= 0) pick(drag.k); drag = null; });
function zoom(f, fx = .5, fy = .5) {
  const w = view.x1 - view.x0, g = view.y1 - view.y0, x = view.x0 + w * fx, y = view.y0 + g * fy;
  if (w * f < .2 || w * f > 24) return;
  view = { x0: x - w * f * fx, x1: x + w * f * (1 - fx), y0: y - g * f * fy, y1: y + g * f * (1 - fy) };
  hide();
  draw();
}
plot.addEventListener("wheel", (e) => {
  if (!e.ctrlKey && !plot.matches(":focus")) return;  // a page that is scrolled past does not zoom
  e.preventDefault();
  const [cx, cy, s] = at(e);
  zoom(e.deltaY > 0 ? 1.2 : 1 / 1.2, (cx / s - L) / (W - L - R), 1 - (cy / s - T) / (H - T - B));
}, { passive: false });
const reset = () => { view = null; hide(); draw(); bars(); };
plot.addEventListener("keydown", (e) => {
  const order = [...new Set(marks().sort((a, b) => (b.k.time || 0) - (a.k.time || 0)).map((p) => p.k.i))];
  const go = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  if (go && order.length) {
    const was = order.indexOf(active), i = order[(was + go + order.length) % order.length], p = marks().find((q) => q.k.i === i);
    const s = plot.getBoundingClientRect().width / W;
    show(i, p.n, X(p.x) * s, Y(p.y) * s);
    live(K[i].short + ": " + words(K[i], p.n).join("; "));
    e.preventDefault();
  } else if (e.key === "Enter" && active >= 0) { pick(active); e.preventDefault(); }
  else if (e.key === "+" || e.key === "=") zoom(1 / 1.3);
  else if (e.key === "-") zoom(1.3);
  else if (e.key === "0") reset();
  else if (e.key === "Escape") { hide(); choose(-1); }
});
function pick(i) {
  picked.has(i) ? picked.delete(i) : picked.add(i);
  if (on.alone) view = null;
  const row = all(`.row[data-kernel="${i}"]`).find((r) => !r.closest("[hidden]"));
  follow(picked.has(i) && row ? row.dataset.finding : "");
}

/* ---- what is drawn ---- */
function controls() {
  const c = $("controls");
  c.replaceChildren();
  const group = (title, names, set, text) => {
    const f = h("fieldset", {}, h("legend", {}, title));
    for (const n of names) {
      const b = h("input", { type: "checkbox", checked: set.has(n), id: "t-" + n });
      b.addEventListener("change", () => { b.checked ? set.add(n) : set.delete(n); reset(); });
      f.append(h("label", {}, b, " ", ...text(n)));
    }
    c.append(f);
  };
  const counted = D.parts.filter((p) => K.some((k) => k.impl === p.name && k.flops > 0));
  if (counted.length > 1) group(tx("shown"), counted.map((p) => p.name).slice(0, 24), on.part, (n) => [key(n), n]);
  if (LEVELS.length > 1) group(tx("memory"), LEVELS, on.level, (n) => [n.toUpperCase()]);
  const pipes = D.pipes.filter((c) => K.some((k) => k.pipe === c && k.flops > 0));
  if (pipes.length > 1) group(tx("precision"), pipes, on.pipe, (n) => [n]);
  if (K.length > 6) {
    const slide = h("input", { type: "range", min: 5, max: 100, step: 5, value: on.cover, id: "cover" }), said = h("output", {}, on.cover + "%");
    slide.addEventListener("input", () => { on.cover = +slide.value; said.textContent = slide.value + "%"; reset(); });
    c.append(h("fieldset", {}, h("label", {}, tx("cover") + " ", slide, " ", said)));
  }
  const alone = h("input", { type: "checkbox", checked: on.alone, id: "alone", disabled: !picked.size });
  alone.addEventListener("change", () => { on.alone = alone.checked; reset(); });
  c.append(h("fieldset", {}, h("label", {}, alone, " " + tx("alone"))));
  for (const [t, f] of [[tx("in"), () => zoom(1 / 1.4)], [tx("out"), () => zoom(1.4)], [tx("all"), reset], [tx("unpick"), () => { on.alone = false; view = null; choose(-1); }], ["SVG", () => save("svg")], ["PNG", () => save("png")]]) c.append(button(t, f, t === "SVG" || t === "PNG" ? { "aria-label": tx("save", t) } : {}));
}
/* the plot as a file: what the style sheet says is written into it */
function picture() {
  const copy = plot.cloneNode(true), from = all("*", plot), to = all("*", copy);
  const names = ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "opacity", "font-size", "font-weight", "font-family", "paint-order", "stroke-linejoin"];
  from.forEach((e, i) => { const s = getComputedStyle(e); to[i].setAttribute("style", names.map((n) => `${n}:${s.getPropertyValue(n)}`).join(";")); });
  copy.setAttribute("xmlns", NS);
  const high = H + legend(copy);
  copy.setAttribute("viewBox", `0 0 ${W} ${high}`);
  copy.setAttribute("width", W);
  copy.setAttribute("height", high);
  copy.prepend(el("rect", { width: W, height: high, fill: getComputedStyle(document.body).backgroundColor }));
  return [new XMLSerializer().serializeToString(copy), high];
}
/* below the picture what it is of, and whose each outline is, for the controls stay behind; its height */
function legend(copy) {
  const fg = css("--fg"), text = { fill: fg, "font-size": 12, "font-family": "system-ui,sans-serif" };
  let x = L, y = H + 16;
  copy.append(el("text", { ...text, x, y, "font-weight": 600 }, document.title));
  y += 20;
  for (const name of new Set(marks().map((p) => p.k.impl))) {
    if (!name) continue;
    const w = wide(name, 12) + 34;
    if (x > L && x + w > W - R) { x = L; y += 20; }
    const mark = outline(name, x + 6, y - 4, 5);
    mark.setAttribute("fill", css(colour(name).slice(4, -1)));
    copy.append(mark, el("text", { ...text, x: x + 18, y }, name));
    x += w;
  }
  return y - H + 10;
}
function save(form) {
  const [text, high] = picture(), url = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  const give = (blob) => download(blob, "roofline." + form);
  if (form === "svg") { give(new Blob([text], { type: "image/svg+xml" })); return; }
  const image = new Image(), canvas = h("canvas", { width: W * 2, height: high * 2 });
  image.onload = () => { canvas.getContext("2d").drawImage(image, 0, 0, W * 2, high * 2); canvas.toBlob(give, "image/png"); };
  image.src = url;
}
/* kernels without FLOP have no place on a log axis: their bandwidth as bars */
function bars() {
  const box = $("strip"), none = K.filter((k) => !(k.flops > 0) && num(k.dram) && num(k.time) && (flat || chosen(k))).sort((a, b) => rank(b) - rank(a) || b.time - a.time);
  box.replaceChildren();
  if (!none.length) return;
  const peak = roof.dram ? roof.dram.peak : NaN, most = Math.max(...none.map((k) => k.dram));
  box.append(h("h3", {}, tx("bars") + (num(peak) ? tx("of", say(peak, "B/s")) : "")));
  for (const k of none.slice(0, 12)) {
    const f = k.dram / (num(peak) ? peak : most);
    const fill = h("i", { style: `width:${Math.min(100, f * 100)}%;background:${colour(k.impl)}` });
    const row = h("button", { type: "button", className: "bar", title: k.kernel, "aria-pressed": String(picked.has(k.i)) }, h("span", { className: "n" }, key(k.impl), `${k.impl ? k.impl + ": " : ""}${k.short}`), h("span", { className: "t" }, fill), h("span", { className: "v" }, num(peak) ? `${say(k.dram, "B/s")}, ${pct(f)}` : say(k.dram, "B/s")));
    row.dataset.k = k.i;
    row.addEventListener("click", () => pick(k.i));
    box.append(row);
  }
  if (none.length > 12) box.append(h("p", { className: "note" }, tx("more", none.length - 12)));
}
