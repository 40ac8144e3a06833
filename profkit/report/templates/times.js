/* ---- the samples of each time, one strip a part ---- */
function strips() {
  const box = $("strips"), sets = D.timings;
  if (!box) return;
  box.replaceChildren();
  if (!sets.length) { box.append(h("p", { className: "note" }, tx("nottimed"))); return; }
  const q = (v, p) => { const i = (v.length - 1) * p, a = Math.floor(i), b = Math.ceil(i); return v[a] + (v[b] - v[a]) * (i - a); };
  for (const s of sets) {
    const v = [...s.seconds].sort((a, b) => a - b), med = q(v, .5), lo = v[0], hi = v.at(-1), pad = (hi - lo) * .05 || med * .01;
    const x = (t) => 8 + (t - lo + pad) / (hi - lo + 2 * pad) * 344;
    const svg = el("svg", { viewBox: "0 0 360 74", role: "img", "aria-label": tx("samples_label", s.impl, s.method, v.length, say(med, "s"), say(q(v, .25), "s"), say(q(v, .75), "s"), say(lo, "s"), say(hi, "s")) });
    const bins = Math.min(40, Math.max(8, Math.ceil(Math.sqrt(v.length) * 2))), count = Array(bins).fill(0);
    for (const t of v) count[Math.min(bins - 1, Math.floor((t - lo) / (hi - lo || 1) * bins))]++;
    const top = Math.max(...count), wide_ = (x(hi) - x(lo)) / bins;
    count.forEach((c, i) => { if (c) svg.append(el("rect", { x: x(lo) + i * wide_, y: 48 - 42 * c / top, width: Math.max(1, wide_ - 1), height: 42 * c / top, style: `fill:${colour(s.impl)};fill-opacity:.55` })); });
    svg.append(el("line", { x1: x(med), x2: x(med), y1: 2, y2: 52, stroke: "var(--fg)", "stroke-width": 1.5 }));
    svg.append(el("line", { x1: 8, x2: 352, y1: 50, y2: 50, stroke: "var(--line)" }));
    for (const [t, a, px] of [[lo, "start", 8], [hi, "end", 352]]) svg.append(el("text", { x: px, y: 66, "text-anchor": a }, say(t, "s", 4)));
    box.append(h("figure", {}, h("figcaption", {}, key(s.impl), tx("samples", s.impl, say(med, "s", 4), v.length, s.method)), svg));
  }
}
