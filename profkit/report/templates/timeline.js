/* ---- the GPU over time: ranges, a lane a stream, what is idle; drawn on a canvas, so that many launches stay quick ---- */
const TL = D.timeline, line = $("line");
let span = null, busiest = [];
if (TL) {
  TL.at = new Float64Array(TL.start.length);
  TL.start.reduce((t, d, i) => (TL.at[i] = t + d), 0);
  TL.end = TL.at.reduce((m, t, i) => Math.max(m, t + TL.length[i]), 0);
  const sums = TL.names.map(() => 0);
  TL.length.forEach((t, i) => { sums[TL.kernel[i]] += t; });
  busiest = sums.map((t, k) => [t, k]).sort((a, b) => b[0] - a[0]).slice(0, 7).map(([, k]) => k);
  /* the longest launch up to each place bounds how far back one can still be running */
  TL.reach = new Float64Array(TL.at.length);
  TL.at.reduce((m, t, i) => (TL.reach[i] = Math.max(m, t + TL.length[i])), 0);
}
const SEC = 1e-8, ROW = 30, HEADROOM = 4;
const tint = (k) => { const at_ = busiest.indexOf(k); return at_ < 0 ? "--ref" : "--s" + at_; };
/* of the same width everywhere, so that kernels are told apart without their colour */
const band = (k) => TL.bands[busiest.indexOf(k)] || 0;
const stripes = (c, bg, x, high, low, w, count) => {
  if (count) { c.fillStyle = bg; c.fillRect(x, low, w, 2); }
  if (count > 1) c.fillRect(x, high, w, 2);
};
const striped = (k) => {
  const line = (y) => `linear-gradient(var(--bg),var(--bg)) 0 ${y}px/100% 2px no-repeat,`;
  return (band(k) > 1 ? line(2) : "") + (band(k) ? line(7) : "") + `var(${tint(k)})`;
};
const css = (name) => getComputedStyle(ROOT).getPropertyValue(name).trim();
const below = (array, value) => { let a = 0, b = array.length; while (a < b) { const m = (a + b) >> 1; if (array[m] < value) a = m + 1; else b = m; } return a; };
const depth = () => TL.ranges.reduce((m, r) => Math.max(m, r[1] + 1), 0);
const lanes = () => Math.max(1, TL.lanes.length);
function lineView(a, b) {
  const least = 50, w = Math.min(TL.end, Math.max(least, b - a));
  const x = Math.max(0, Math.min(TL.end - w, a));
  span = [x, x + w];
  drawLine();
}
function drawLine() {
  if (!TL || !line) return;
  if (!span) span = [0, TL.end];
  const w = line.parentElement.clientWidth, d = depth(), top = 18 + d * 18, hh = top + lanes() * ROW + 34, scale = window.devicePixelRatio || 1;
  line.width = w * scale; line.height = hh * scale; line.style.height = hh + "px";
  const c = line.getContext("2d");
  c.scale(scale, scale);
  c.font = "11px system-ui,sans-serif";
  c.clearRect(0, 0, w, hh);
  const x = (t) => (t - span[0]) / (span[1] - span[0]) * w, fg = css("--fg"), bg = css("--bg"), muted = css("--muted"), soft = css("--soft"), grid = css("--line");
  ticks(c, x, w, hh, muted, grid);
  if (TL.steady.length) {
    const a = TL.steady[0], b = TL.steady.at(-1);
    c.fillStyle = css("--accent"); c.globalAlpha = .08; c.fillRect(x(a), top, x(b) - x(a), lanes() * ROW); c.globalAlpha = 1;
  }
  for (const [name, level, a, b] of TL.ranges) {
    if (b < span[0] || a > span[1]) continue;
    const px = Math.max(0, x(a)), pw = Math.max(1, Math.min(w, x(b)) - px);
    c.fillStyle = soft; c.strokeStyle = grid; c.fillRect(px, 18 + level * 18, pw, 16); c.strokeRect(px + .5, 18.5 + level * 18, pw, 15);
    if (pw > 30) { c.fillStyle = fg; c.save(); c.beginPath(); c.rect(px, 18 + level * 18, pw - 3, 16); c.clip(); c.fillText(name, px + 4, 30 + level * 18); c.restore(); }
  }
  const tints = {};
  const last = below(TL.at, span[1]), shade = (k) => tints[k] || (tints[k] = css(tint(k)));
  /* of each lane and pixel only the longest launch is drawn where they are narrower than one */
  const narrow = [], laneOf = (i) => TL.lane.length ? TL.lane[i] : 0;
  const piece = (i) => {
    const px = x(TL.at[i]), pw = Math.max(.7, x(TL.at[i] + TL.length[i]) - px), copied = TL.copy.includes(TL.kernel[i]), y = top + laneOf(i) * ROW + HEADROOM;
    c.fillStyle = shade(TL.kernel[i]);
    c.fillRect(px, copied ? y + 12 : y, pw, copied ? 10 : 22);
    if (pw > 2) stripes(c, bg, px, copied ? y + 14 : y + 2, y + 18, pw, band(TL.kernel[i]));
    if (pw > 46) { c.fillStyle = bg; c.save(); c.beginPath(); c.rect(px, y, pw - 3, 22); c.clip(); c.fillText(TL.names[TL.kernel[i]], px + 4, y + 15); c.restore(); }
  };
  for (let i = below(TL.reach, span[0]); i < last; i++) {
    const t = TL.at[i], e = t + TL.length[i];
    if (e < span[0]) continue;
    const lane = laneOf(i), wide = x(e) - x(t) > .7, slot = Math.floor(x(t) / .7), had = narrow[lane];
    if (had && (wide || had.slot !== slot)) { piece(had.i); narrow[lane] = null; }
    if (wide) piece(i); else if (!narrow[lane] || TL.length[i] > TL.length[narrow[lane].i]) narrow[lane] = { slot, i };
  }
  narrow.forEach((one) => { if (one) piece(one.i); });
  if (TL.steady.length && (x(TL.steady.at(-1)) - x(TL.steady[0])) / TL.steady.length > 6) {
    c.strokeStyle = css("--accent"); c.lineWidth = 1.5; c.setLineDash([4, 3]);
    for (const t of TL.steady) { c.beginPath(); c.moveTo(x(t), 18); c.lineTo(x(t), top + lanes() * ROW); c.stroke(); }
    c.lineWidth = 1; c.setLineDash([]);
  }
  c.fillStyle = fg;
  if (TL.lanes.length > 1) TL.lanes.forEach((name, i) => { c.fillStyle = css("--bg"); c.globalAlpha = .75; c.fillRect(0, top + i * ROW - 1, c.measureText(name).width + 6, 11); c.globalAlpha = 1; c.fillStyle = muted; c.fillText(name, 2, top + i * ROW + 8); });
  overview(c, w, hh, grid);
  said();
}
function ticks(c, x, w, hh, muted, grid) {
  const room = (span[1] - span[0]) * SEC, step = 10 ** Math.floor(Math.log10(room / 4)), by = [1, 2, 5, 10, 20].map((m) => m * step).find((s) => room / s <= Math.max(3, w / 130));
  for (let n = Math.ceil(span[0] * SEC / by); n * by <= span[1] * SEC; n++) {
    const px = x(n * by / SEC);
    c.strokeStyle = grid; c.beginPath(); c.moveTo(px + .5, 14); c.lineTo(px + .5, hh - 30); c.stroke();
    c.fillStyle = muted; c.textAlign = px < 30 ? "left" : px > w - 30 ? "right" : "center"; c.fillText(n ? say(n * by, "s") : "0", px, 10);
  }
  c.textAlign = "left";
}
/* the whole run as how busy each stretch of it is; the part that is shown stands out */
function overview(c, w, hh, grid) {
  const bins = Math.floor(w), y = hh - 26;
  if (!TL.busy || TL.busy.length !== bins) {
    TL.busy = new Float64Array(bins);
    let reach = 0;
    for (let i = 0; i < TL.at.length; i++) {
      let a = Math.max(reach, TL.at[i]);
      const e = TL.at[i] + TL.length[i];
      reach = Math.max(reach, e);
      while (a < e) { const b = Math.min(bins - 1, Math.floor(a / TL.end * bins)), edge = b === bins - 1 ? e : Math.min(e, (b + 1) / bins * TL.end); TL.busy[b] += edge - a; if (edge <= a) break; a = edge; }
    }
  }
  c.fillStyle = css("--ref");
  const each = TL.end / bins;
  for (let b = 0; b < bins; b++) { const f = Math.min(1, TL.busy[b] / each); c.fillRect(b, y + 20 * (1 - f), 1, 20 * f); }
  c.strokeStyle = grid; c.strokeRect(.5, y + .5, w - 1, 20);
  c.strokeStyle = css("--accent"); c.lineWidth = 2;
  c.strokeRect(span[0] / TL.end * w + 1, y, Math.max(2, (span[1] - span[0]) / TL.end * w - 2), 21);
  c.lineWidth = 1;
}
/* busy, idle and overlapping of what is in view, and the numbers of kernels, of copies, of fills */
function spent() {
  let busy = 0, sum = 0, copies = 0, fills = 0, kernels = 0, reach = span[0];
  for (let i = below(TL.reach, span[0]), last = below(TL.at, span[1]); i < last; i++) {
    const a = Math.max(span[0], TL.at[i]), e = Math.min(span[1], TL.at[i] + TL.length[i]);
    if (e <= a) continue;
    if (TL.fill.includes(TL.kernel[i])) fills++; else if (TL.copy.includes(TL.kernel[i])) copies++; else kernels++;
    sum += e - a; busy += Math.max(0, e - Math.max(a, reach)); reach = Math.max(reach, e);
  }
  return { busy, overlap: sum - busy, kernels, copies, fills };
}
function said() {
  const { busy, overlap, kernels, copies, fills } = spent(), room = span[1] - span[0];
  const count = tx("kernels_n", kernels) + (copies ? tx("copies_n", copies) : "") + (fills ? tx("fills_n", fills) : "");
  $("line-said").textContent = tx("line", say(room * SEC, "s"), pct(busy / room), pct(1 - busy / room), count) + (overlap > 1e-5 * room ? tx("beside", say(overlap * SEC, "s")) : "") + (TL.hidden ? tx("cut", TL.whole - TL.hidden, TL.whole) : "");
}
function lineAt(e) {
  const r = line.getBoundingClientRect(), t = span[0] + (e.clientX - r.left) / r.width * (span[1] - span[0]), top = 18 + depth() * 18;
  const lane = Math.floor((e.clientY - r.top - top) / ROW), near = (span[1] - span[0]) / r.width * 2;
  if (lane < 0 || lane >= lanes()) return -1;
  for (let i = Math.min(TL.at.length - 1, below(TL.at, t + near)); i >= 0 && TL.reach[i] >= t - near; i--) if ((TL.lane.length ? TL.lane[i] : 0) === lane && TL.at[i] <= t + near && TL.at[i] + TL.length[i] >= t - near) return i;
  return -1;
}
function lineZoom(f, x = .5) { const w = span[1] - span[0], m = span[0] + w * x; lineView(m - w * f * x, m + w * f * (1 - x)); }
function lineControls() {
  if (!TL) return;
  const move = (f) => lineView(span[0] + (span[1] - span[0]) * f, span[1] + (span[1] - span[0]) * f);
  const steady = TL.steady.length ? [[tx("step"), () => lineView(...TL.steady.slice(TL.steady.length > 2 ? 1 : 0).slice(0, 2))], [tx("steady"), () => lineView(TL.steady[0], TL.steady.at(-1))]] : [];
  $("line-controls").replaceChildren(...[[tx("in"), () => lineZoom(.5)], [tx("out"), () => lineZoom(2)], ["←", () => move(-.5)], ["→", () => move(.5)], ...steady, [tx("all"), () => lineView(0, TL.end)]].map(([t, f]) => button(t, f, t === "←" || t === "→" ? { "aria-label": t === "←" ? tx("earlier") : tx("later") } : {})));
  $("line-keys").replaceChildren(...busiest.map((k) => h("span", {}, h("i", { style: `background:${striped(k)}` }), TL.names[k])), h("span", {}, h("i", { style: "background:var(--ref)" }), tx("others")));
}
if (TL) {
  let from = null;
  line.addEventListener("pointerdown", (e) => { from = { x: e.clientX, v: [...span], low: e.clientY > line.getBoundingClientRect().bottom - 28 }; line.setPointerCapture(e.pointerId); if (from.low) centre(e); });
  const centre = (e) => { const r = line.getBoundingClientRect(), m = (e.clientX - r.left) / r.width * TL.end, w = span[1] - span[0]; lineView(m - w / 2, m + w / 2); };
  line.addEventListener("pointermove", (e) => {
    const box = $("line-tip");
    if (from) { if (from.low) centre(e); else { const dx = (from.x - e.clientX) / line.clientWidth * (from.v[1] - from.v[0]); lineView(from.v[0] + dx, from.v[1] + dx); } return; }
    const i = lineAt(e);
    box.hidden = i < 0;
    if (i < 0) return;
    box.replaceChildren(h("b", {}, TL.names[TL.kernel[i]]), h("div", {}, tx("launch", say(TL.length[i] * SEC, "s"), say(TL.at[i] * SEC, "s", 6))));
    const r = line.getBoundingClientRect();
    box.style.left = Math.max(0, Math.min(e.clientX - r.left + 12, r.width - box.offsetWidth)) + "px";
    box.style.top = e.clientY - r.top + 14 + "px";
  });
  line.addEventListener("pointerup", () => { from = null; });
  line.addEventListener("pointerleave", () => { $("line-tip").hidden = true; });
  line.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !line.matches(":focus")) return;
    e.preventDefault();
    const r = line.getBoundingClientRect();
    lineZoom(e.deltaY > 0 ? 1.3 : 1 / 1.3, (e.clientX - r.left) / r.width);
  }, { passive: false });
  line.addEventListener("keydown", (e) => {
    const w = span[1] - span[0], go = { ArrowRight: .2, ArrowLeft: -.2 }[e.key];
    if (go) lineView(span[0] + w * go, span[1] + w * go);
    else if (e.key === "+" || e.key === "=") lineZoom(.5);
    else if (e.key === "-") lineZoom(2);
    else if (e.key === "0") lineView(0, TL.end);
    else return;
    e.preventDefault();
  });
}
