/* ---- a program over time: threads of the host, ranges, a lane a stream; drawn on a canvas, so that many events stay quick ---- */
const TLS = D.timelines, line = $("line"), SEC = 1e-8, ROW = 30, HEADROOM = 4, HOST = 15, HEAD = 14, DEEP = 8;
const [RANGE, , , CALL] = [0, 1, 2, 3], WAITS = /Synchronize|StreamWait|EventQuery/, LAUNCHES = /Launch|Memcpy|Memset/;
const below = (array, value) => { let a = 0, b = array.length; while (a < b) { const m = (a + b) >> 1; if (array[m] < value) a = m + 1; else b = m; } return a; };
const summed = (steps) => { let t = 0; return Float64Array.from(steps, (d) => (t += d)); };
/* a step of each run's steady state, the second where the first may be cut; runs are laid so that these begin together */
const stepOf = (T) => T.steady.slice(T.steady.length > 2 ? 1 : 0).slice(0, 2), alignAt = Math.max(0, ...TLS.map((T) => stepOf(T)[0] || 0));
TLS.forEach((T) => {
  const shift = alignAt - (T.steady.length ? stepOf(T)[0] : alignAt);
  T.end += shift;
  T.steady = T.steady.map((t) => t + shift);
  for (const one of T.ranges) { one[2] += shift; one[3] += shift; }
  for (const one of [T.start, T.host.start]) if (one.length) one[0] += shift;
  T.at = summed(T.start);
  T.kernel = T.what.map((w) => T.whats[w][0]);
  /* the longest launch up to each place bounds how far back one can still be running */
  let far = 0;
  T.reach = T.at.map((t, i) => (far = Math.max(far, t + T.length[i])));
  T.end = Math.max(T.end, far);
  T.depth = T.ranges.reduce((m, r) => Math.max(m, r[1] + 1), 0);
  nest(T, T.host);
});
/* of each thread its rows: an event lies below those that it lies in, and never on one that it overlaps */
function nest(T, H) {
  H.at = summed(H.start);
  H.rows = H.lanes.map(() => []);
  H.up = [];
  let open = [];
  const end = (i) => H.at[i] + H.length[i];
  H.at.forEach((t, i) => {
    const lane = H.lane[i];
    open = open.filter((one) => H.lane[one.i] === lane && end(one.i) > t);
    const outer = open.filter((one) => end(one.i) >= end(i)).reduce((m, one) => (one.level > m.level ? one : m), { i: -1, level: -1 });
    let level = outer.level + 1;
    while (open.some((one) => one.level === level)) level++;
    const row = H.rows[lane][level] || (H.rows[lane][level] = { i: [], at: [] });
    row.i.push(i); row.at.push(t);
    H.up.push(outer.i);
    open.push({ i, level });
  });
  let y = 18;
  H.top = H.rows.map((rows) => { const top = y + HEAD; y = top + Math.min(DEEP, rows.length) * HOST + 4; return top; });
  T.ranged = y + (H.lanes.length && T.at.length ? HEAD : 0);
}
/* what is switched between lies at one height */
for (const T of TLS) {
  T.ranged = Math.max(...TLS.map((one) => one.ranged));
  T.top = T.ranged + Math.max(...TLS.map((one) => one.depth)) * 18;
  T.low = T.top + Math.max(...TLS.map((one) => one.at.length && Math.max(1, one.lanes.length))) * ROW;
}
/* the events of a thread that a moment lies in, the outermost first */
const around = (T, lane, t) => (T.host.rows[lane] || []).map((row) => { const n = below(row.at, t + .5) - 1, i = row.i[n]; return n >= 0 && T.host.at[i] + T.host.length[i] >= t ? i : -1; }).filter((i) => i >= 0);
/* preset: of what is in view, the part that each run calls its own, as its one step */
let TL = TLS[0], span = null, preset = null, busiest = [], picked_ = -1, under = null;
{
  const sums = {};
  for (const T of TLS) T.length.forEach((t, i) => { const name = T.names[T.kernel[i]]; sums[name] = (sums[name] || 0) + t; });
  busiest = Object.keys(sums).sort((a, b) => sums[b] - sums[a]).slice(0, 7);
}
const rankOf = (name) => busiest.indexOf(name), tint = (name) => rankOf(name) < 0 ? "--ref" : "--s" + rankOf(name);
/* of the same width everywhere, so that kernels are told alignAt without their colour */
const band = (name) => TL.bands[rankOf(name)] || 0;
const stripes = (c, bg, x, high, low, w, count) => {
  if (count) { c.fillStyle = bg; c.fillRect(x, low, w, 2); }
  if (count > 1) c.fillRect(x, high, w, 2);
};
const striped = (name) => {
  const mark = (y) => `linear-gradient(var(--bg),var(--bg)) 0 ${y}px/100% 2px no-repeat,`;
  return (band(name) > 1 ? mark(2) : "") + (band(name) ? mark(7) : "") + `var(${tint(name)})`;
};
const css = (name) => getComputedStyle(ROOT).getPropertyValue(name).trim();
const laneOf = (i) => TL.lane.length ? TL.lane[i] : 0, pathOf = (i, T = TL) => T.paths[T.range.length ? T.range[i] : 0] || "";
const END = () => Math.max(...TLS.map((T) => T.end));
function lineView(a, b, own = null) {
  preset = own;
  const w = Math.min(END(), Math.max(50, b - a)), x = Math.max(0, Math.min(END() - w, a));
  span = [x, x + w];
  drawLine();
}
/* from the first begin to the last end of what the runs call so */
function lineOwn(own) {
  const ends = TLS.map(own).filter(([a]) => a !== undefined);
  lineView(Math.min(...ends.map(([a]) => a)), Math.max(...ends.map(([, b]) => b)), own);
}
const steadyOf = (T) => T.steady.length ? [T.steady[0], T.steady.at(-1)] : [];
function swap() {
  const held = document.activeElement === $("line-swap");
  TL = TLS[(TLS.indexOf(TL) + 1) % TLS.length];
  under = null; picked_ = -1;
  lineTip(null);
  lineControls(); drawLine();
  if (held) $("line-swap").focus();
}
const clipped = (c, text, x, y, w, colour) => { c.fillStyle = colour; c.save(); c.beginPath(); c.rect(x, y - 13, w - 7, 18); c.clip(); c.fillText(text, x, y); c.restore(); };
function drawLine() {
  if (!TL || !line) return;
  if (!span) { if (preset) lineOwn(preset); else lineView(0, END()); return; }
  const w = line.parentElement.clientWidth, hh = TL.low + 34, scale = window.devicePixelRatio || 1;
  line.width = w * scale; line.height = hh * scale; line.style.height = hh + "px";
  const c = line.getContext("2d");
  c.scale(scale, scale);
  c.font = "11px system-ui,sans-serif";
  c.clearRect(0, 0, w, hh);
  const x = (t) => (t - span[0]) / (span[1] - span[0]) * w, [fg, bg, muted, soft, grid, accent] = ["--fg", "--bg", "--muted", "--soft", "--line", "--accent"].map(css);
  ticks(c, x, w, hh, muted, grid);
  if (TL.steady.length) {
    const a = TL.steady[0], b = TL.steady.at(-1);
    c.fillStyle = accent; c.globalAlpha = .08; c.fillRect(x(a), TL.top, x(b) - x(a), TL.low - TL.top); c.globalAlpha = 1;
  }
  hosts(c, x, w, { fg, bg, muted, soft, grid, accent });
  for (const [name, level, a, b] of TL.ranges) {
    if (b < span[0] || a > span[1]) continue;
    const px = Math.max(0, x(a)), pw = Math.max(1, Math.min(w, x(b)) - px), y = TL.ranged + level * 18;
    c.fillStyle = soft; c.strokeStyle = grid; c.fillRect(px, y, pw, 16); c.strokeRect(px + .5, y + .5, pw, 15);
    if (pw > 30) clipped(c, name, px + 4, y + 12, pw, fg);
  }
  const tints = {};
  const last = below(TL.at, span[1]), shade = (name) => tints[name] || (tints[name] = css(tint(name)));
  /* of each lane and pixel only the longest launch is drawn where they are narrower than one */
  const narrow = [];
  const piece = (i) => {
    const px = x(TL.at[i]), pw = Math.max(.7, x(TL.at[i] + TL.length[i]) - px), copied = TL.copy.includes(TL.kernel[i]), y = TL.top + laneOf(i) * ROW + HEADROOM, name = TL.names[TL.kernel[i]];
    c.fillStyle = shade(name);
    c.fillRect(px, copied ? y + 12 : y, pw, copied ? 10 : 22);
    if (pw > 2) stripes(c, bg, px, copied ? y + 14 : y + 2, y + 18, pw, band(name));
    if (pw > 46) clipped(c, name, px + 4, y + 15, pw, bg);
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
    c.strokeStyle = accent; c.lineWidth = 1.5; c.setLineDash([4, 3]);
    for (const t of TL.steady) { c.beginPath(); c.moveTo(x(t), TL.ranged); c.lineTo(x(t), TL.low); c.stroke(); }
    c.lineWidth = 1; c.setLineDash([]);
  }
  const over = (text, y) => { c.fillStyle = bg; c.globalAlpha = .75; c.fillRect(0, y, c.measureText(text).width + 6, 11); c.globalAlpha = 1; c.fillStyle = muted; c.fillText(text, 2, y + 9); };
  if (TL.lanes.length > 1) TL.lanes.forEach((name, i) => over(name, TL.top + i * ROW - 1));
  TL.host.lanes.forEach((name, i) => over(tx("thread", name), TL.host.top[i] - HEAD + 1));
  if (TL.host.lanes.length && TL.at.length) over("GPU", TL.ranged - HEAD + 1);
  for (const i of new Set([picked_, under && under.gpu ? under.i : -1])) if (i >= 0) arrow(c, x, i, fg, bg);
  overview(c, w, hh, grid);
  said();
  followed();
}
/* a thread's events, one in another below it: ranges framed, operators pale, calls of CUDA full, waits in the colour of idle time */
const paint = (H, i) => { const [kind, name] = H.whats[H.what[i]]; return kind === RANGE ? "" : kind !== CALL ? "--s0" : WAITS.test(name) ? "--gaps" : LAUNCHES.test(name) ? "--accent" : "--ref"; };
function hosts(c, x, w, { fg, bg, soft, grid }) {
  const H = TL.host, shades = {};
  H.rows.forEach((rows, lane) => rows.slice(0, DEEP).forEach((row, level) => {
    const y = H.top[lane] + level * HOST;
    let slot = -1;
    for (let n = Math.max(0, below(row.at, span[0]) - 1); n < row.i.length && row.at[n] <= span[1]; n++) {
      const i = row.i[n], e = H.at[i] + H.length[i];
      if (e < span[0]) continue;
      const px = Math.max(0, x(H.at[i])), pw = Math.max(.7, Math.min(w, x(e)) - px), name = paint(H, i), here = Math.floor(px / .7);
      if (pw <= .7 && here === slot) continue;
      slot = here;
      const faint = name === "" || name === "--s0";
      c.fillStyle = name ? shades[name] || (shades[name] = css(name)) : soft;
      c.globalAlpha = name === "--s0" ? .3 : 1;
      c.fillRect(px, y, pw, HOST - 1);
      c.globalAlpha = 1;
      if (pw > 3) { c.strokeStyle = faint ? grid : bg; c.strokeRect(px + .5, y + .5, pw - 1, HOST - 2); }
      if (pw > 34) clipped(c, H.whats[H.what[i]][1], px + 4, y + 11, pw, faint ? fg : bg);
      if (under && !under.gpu && under.i === i) { c.strokeStyle = fg; c.strokeRect(px + .5, y + .5, pw - 1, HOST - 2); }
    }
  }));
}
/* from the call of the host to the kernel that it launched */
function arrow(c, x, i, fg, bg) {
  const to = x(TL.at[i]), y = TL.top + laneOf(i) * ROW + HEADROOM;
  c.strokeStyle = fg; c.lineWidth = 2;
  c.strokeRect(to - 1, y - 1, Math.max(.7, x(TL.at[i] + TL.length[i]) - to) + 2, 24);
  if (TL.late[i] >= 0 && TL.thread[i] >= 0) {
    const t = TL.at[i] - TL.late[i], from = x(t), level = Math.min(DEEP, around(TL, TL.thread[i], t).length), high = TL.host.top[TL.thread[i]] + level * HOST;
    const bend = Math.max(10, (y - high) / 2), path = () => { c.beginPath(); c.moveTo(from, high); c.bezierCurveTo(from, high + bend, to, y - bend, to, y - 5); c.stroke(); };
    c.strokeStyle = bg; c.lineWidth = 5; path();
    c.strokeStyle = c.fillStyle = fg; c.lineWidth = 1.6; path();
    c.beginPath(); c.moveTo(to, y); c.lineTo(to - 4, y - 7); c.lineTo(to + 4, y - 7); c.fill();
    c.beginPath(); c.arc(from, high, 3, 0, 7); c.fill();
  }
  c.lineWidth = 1;
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
/* the whole run as how busy each stretch of it is, by the GPU or else the threads; the part that is shown stands out */
function overview(c, w, hh, grid) {
  const bins = Math.floor(w), y = hh - 26, [at, long] = TL.at.length ? [TL.at, TL.length] : [TL.host.at, TL.host.length], end = END();
  if (!TL.busy || TL.busy.length !== bins) {
    TL.busy = new Float64Array(bins);
    let reach = 0;
    for (let i = 0; i < at.length; i++) {
      let a = Math.max(reach, at[i]);
      const e = at[i] + long[i];
      reach = Math.max(reach, e);
      while (a < e) { const b = Math.min(bins - 1, Math.floor(a / end * bins)), edge = b === bins - 1 ? e : Math.min(e, (b + 1) / bins * end); TL.busy[b] += edge - a; if (edge <= a) break; a = edge; }
    }
  }
  c.fillStyle = css("--ref");
  const each = end / bins;
  for (let b = 0; b < bins; b++) { const f = Math.min(1, TL.busy[b] / each); c.fillRect(b, y + 20 * (1 - f), 1, 20 * f); }
  c.strokeStyle = grid; c.strokeRect(.5, y + .5, w - 1, 20);
  c.strokeStyle = css("--accent"); c.lineWidth = 2;
  c.strokeRect(span[0] / end * w + 1, y, Math.max(2, (span[1] - span[0]) / end * w - 2), 21);
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
  const room = span[1] - span[0], whose = TLS.length > 1 ? tx("colon", TL.label) : "";
  if (!TL.at.length) {
    const seen = TL.host.at.reduce((n, t, i) => n + (TL.host.whats[TL.host.what[i]][0] !== RANGE && t <= span[1] && t + TL.host.length[i] >= span[0]), 0);
    $("line-said").textContent = whose + tx("line_host", say(room * SEC, "s"), seen);
    return;
  }
  const { busy, overlap, kernels, copies, fills } = spent();
  const count = tx("kernels_n", kernels) + (copies ? tx("copies_n", copies) : "") + (fills ? tx("fills_n", fills) : "");
  $("line-said").textContent = whose + tx("line", say(room * SEC, "s"), pct(busy / room), pct(1 - busy / room), count) + (overlap > 1e-5 * room ? tx("beside", say(overlap * SEC, "s")) : "") + (TL.hidden ? tx("cut", TL.whole - TL.hidden, TL.whole) : "");
}
/* what lies under the pointer: a launch, or an event of the host */
function lineAt(e) {
  const r = line.getBoundingClientRect(), t = span[0] + (e.clientX - r.left) / r.width * (span[1] - span[0]), y = e.clientY - r.top, near = (span[1] - span[0]) / r.width * (e.pointerType === "touch" ? 9 : 2), H = TL.host;
  if (y >= TL.top && y < TL.low) {
    const lane = Math.floor((y - TL.top) / ROW);
    for (let i = Math.min(TL.at.length - 1, below(TL.at, t + near)); i >= 0 && TL.reach[i] >= t - near; i--) if (laneOf(i) === lane && TL.at[i] <= t + near && TL.at[i] + TL.length[i] >= t - near) return { gpu: true, i };
  }
  const lane = H.top.findIndex((top, l) => y >= top && y < top + Math.min(DEEP, H.rows[l].length) * HOST);
  if (lane < 0) return null;
  const row = H.rows[lane][Math.floor((y - H.top[lane]) / HOST)], n = below(row.at, t + near) - 1, i = row.i[n];
  return n >= 0 && H.at[i] + H.length[i] >= t - near ? { gpu: false, i } : null;
}
function facts_(one) {
  if (!one.gpu) return [TL.host.whats[TL.host.what[one.i]][1], tx("launch", say(TL.host.length[one.i] * SEC, "s"), say(TL.host.at[one.i] * SEC, "s", 6)), tx("thread", TL.host.lanes[TL.host.lane[one.i]])];
  const [i, [, grid, block, op, shapes]] = [one.i, TL.whats[TL.what[one.i]]], path = pathOf(i);
  return [
    TL.names[TL.kernel[i]], tx("launch", say(TL.length[i] * SEC, "s"), say(TL.at[i] * SEC, "s", 6)),
    ...(TL.late[i] >= 0 ? [tx("late", say(TL.late[i] * SEC, "s")) + (TL.thread[i] >= 0 ? tx("inroof", tx("thread", TL.host.lanes[TL.thread[i]])) : "")] : []),
    ...(grid ? [tx("shape", grid.replaceAll(",", " × "), block.replaceAll(",", " × "))] : []),
    ...(path ? [tx("within", path)] : []), ...(op ? [tx("op", op) + (shapes ? " " + shapes : "")] : []),
  ];
}
function lineTip(one, x, y) {
  const box = $("line-tip");
  box.hidden = !one;
  if (!one) return;
  const [name, ...rest] = facts_(one);
  box.replaceChildren(h("b", {}, name), ...rest.map((text) => h("div", {}, text)));
  box.style.left = Math.max(0, Math.min(x + 12, line.clientWidth - box.offsetWidth)) + "px";
  box.style.top = y + 14 + "px";
}
function hover(one) {
  if ((one && one.i) === (under && under.i) && (one && one.gpu) === (under && under.gpu)) return;
  under = one;
  drawLine();
}
/* picks a launch: its arrow stays, its facts are said; from the keyboard it is brought into view */
function pickLaunch(i, show = false) {
  picked_ = i;
  const t = TL.at[i], w = span[1] - span[0], first = t - Math.max(0, TL.late[i]);
  if (i >= 0 && show && (first < span[0] || t + TL.length[i] > span[1])) lineView(t - w / 2, t + w / 2); else drawLine();
  live(i < 0 ? "" : facts_({ gpu: true, i }).join(tx("semicolon")));
  lineTip(i >= 0 && show ? { gpu: true, i } : null, (t - span[0]) / (span[1] - span[0]) * line.clientWidth, i < 0 ? 0 : TL.top + laneOf(i) * ROW + 22);
}
function lineZoom(f, x = .5) { const w = span[1] - span[0], m = span[0] + w * x; lineView(m - w * f * x, m + w * f * (1 - x)); }
function lineControls() {
  if (!TL) return;
  const move = (f) => lineView(span[0] + (span[1] - span[0]) * f, span[1] + (span[1] - span[0]) * f), H = TL.host;
  const steady = TL.steady.length ? [[tx("step"), () => lineOwn(stepOf)], [tx("steady"), () => lineOwn(steadyOf)]] : [];
  const other = TLS.length > 1 ? [button(tx("swap", TL.label, TLS[(TLS.indexOf(TL) + 1) % TLS.length].label), swap, { id: "line-swap" })] : [];
  $("line-controls").replaceChildren(...other, ...[[tx("in"), () => lineZoom(.5)], [tx("out"), () => lineZoom(2)], ["←", () => move(-.5)], ["→", () => move(.5)], ...steady, [tx("all"), () => lineView(0, END())]].map(([t, f]) => button(t, f, t === "←" || t === "→" ? { "aria-label": t === "←" ? tx("earlier") : tx("later") } : {})));
  const sample = (background, text) => h("span", {}, h("i", { style: `background:${background}` }), text), there = new Set(H.what.map((_, i) => paint(H, i)));
  const kinds = [["--s0", "color-mix(in srgb,var(--s0) 30%,var(--bg))", tx("k_op")], ["--accent", "var(--accent)", tx("k_launch")], ["--gaps", "var(--gaps)", tx("k_wait")], ["--ref", "var(--ref)", tx("k_call")]];
  $("line-keys").replaceChildren(
    ...busiest.filter((name) => TL.names.includes(name)).map((name) => sample(striped(name), name)), ...(TL.at.length ? [sample("var(--ref)", tx("others"))] : []),
    ...kinds.filter(([name]) => there.has(name)).map(([, background, word]) => sample(background, word)),
  );
  const deep = H.rows.reduce((n, rows) => n + rows.slice(DEEP).reduce((m, row) => m + row.i.length, 0), 0);
  $("line-note").textContent = [...(other.length ? [tx("swap_help")] : []), ...(H.lanes.length ? [] : [tx("nohost")]), ...(H.hidden ? [tx("hostcut", H.at.length, H.at.length + H.hidden)] : []), ...(deep ? [tx("deep", deep)] : [])].join(" ");
}
if (TL) {
  let from = null;
  if (TLS.length > 1) {
    preset = stepOf;
    for (const id of ["timeline", "flame"]) $(id).addEventListener("keydown", (e) => { if (e.key === "b" && e.target.tagName !== "INPUT" && !e.ctrlKey && !e.metaKey && !e.altKey) swap(); });
  }
  const centre = (e) => { const r = line.getBoundingClientRect(), m = (e.clientX - r.left) / r.width * END(), w = span[1] - span[0]; lineView(m - w / 2, m + w / 2); };
  line.addEventListener("pointerdown", (e) => { from = { x: e.clientX, v: [...span], low: e.clientY > line.getBoundingClientRect().bottom - 28 }; line.setPointerCapture(e.pointerId); if (from.low) centre(e); });
  line.addEventListener("pointermove", (e) => {
    if (from) { if (from.low) centre(e); else { const dx = (from.x - e.clientX) / line.clientWidth * (from.v[1] - from.v[0]); lineView(from.v[0] + dx, from.v[1] + dx); } return; }
    const one = lineAt(e), r = line.getBoundingClientRect();
    hover(one);
    lineTip(one, e.clientX - r.left, e.clientY - r.top);
  });
  line.addEventListener("pointerup", (e) => {
    const still = from && !from.low && Math.abs(e.clientX - from.x) < 4, one = still ? lineAt(e) : null, r = line.getBoundingClientRect();
    from = null;
    if (!still) return;
    pickLaunch(one && one.gpu ? one.i : -1);
    lineTip(one, e.clientX - r.left, e.clientY - r.top);
  });
  line.addEventListener("pointercancel", () => { from = null; });
  line.addEventListener("blur", () => lineTip(null));
  line.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse") { hover(null); lineTip(null); } });
  line.addEventListener("dblclick", (e) => {
    const one = lineAt(e), from_ = one && (one.gpu ? TL : TL.host);
    if (one) lineView(from_.at[one.i] - from_.length[one.i] * .05, from_.at[one.i] + from_.length[one.i] * 1.05);
  });
  line.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !line.matches(":focus")) return;
    e.preventDefault();
    const r = line.getBoundingClientRect();
    lineZoom(e.deltaY > 0 ? 1.3 : 1 / 1.3, (e.clientX - r.left) / r.width);
  }, { passive: false });
  line.addEventListener("keydown", (e) => {
    const w = span[1] - span[0], go = { ArrowRight: .2, ArrowLeft: -.2 }[e.key], next = { n: 1, p: -1 }[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (go) lineView(span[0] + w * go, span[1] + w * go);
    else if (next && TL.at.length) pickLaunch(picked_ < 0 ? Math.min(TL.at.length - 1, below(TL.at, span[0])) : Math.max(0, Math.min(TL.at.length - 1, picked_ + next)), true);
    else if (e.key === "Enter" && picked_ >= 0) { const first = TL.at[picked_] - Math.max(0, TL.late[picked_]), end = TL.at[picked_] + TL.length[picked_], more = (end - first) * .1; lineView(first - more, end + more); pickLaunch(picked_, true); }
    else if (e.key === "Escape" && picked_ >= 0) pickLaunch(-1);
    else if (e.key === "+" || e.key === "=") lineZoom(.5);
    else if (e.key === "-") lineZoom(2);
    else if (e.key === "0") lineView(0, END());
    else return;
    e.preventDefault();
  });
}
