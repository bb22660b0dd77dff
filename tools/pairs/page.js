// rdma-nccl pairs. The results come as columns: data.results.a[i], .b[i], ... (pairs_html.cpp)
const results = data.results, count = results.a.length, nodes = data.nodes;
for (const [name, column] of Object.entries(results)) if (!column.length) results[name] = new Array(count).fill(null); // nothing of it was measured
const states = ["unknown", "good", "slow", "failed"];
const tag_of = {good: "good", slow: "warn", failed: "bad", unknown: ""};
const rails_of = (node) => nodes[node].rails;
const most_rails = Math.max(0, ...nodes.map((node) => node.rails.length));
const rail_label = (node, rail) => rails_of(node)[rail] || "rail " + rail;
const problems = new Map(data.problems), result_notes = new Map(data.notes_of);

// What can be shown: value(i, back) is that of result i from a to b, or with `back` from b to a.
const shown = {
  sends: {label: "sends", unit: "Gb/s", what: "row sends to column", value: (i, back) => back ? results.backward[i] : results.forward[i]},
  receives: {label: "receives", unit: "Gb/s", what: "row receives from column", value: (i, back) => back ? results.forward[i] : results.backward[i]},
  both: {label: "both ways", unit: "Gb/s", what: "both ways at once, the sum", value: (i) => results.both[i]},
  latency: {label: "latency", unit: "us", what: "half a round trip, median", value: (i) => results.latency[i], more_is_worse: true},
  tcp: {label: "TCP", unit: "Gb/s", what: "row sends to column over TCP", value: (i, back) => back ? results.tcp_backward[i] : results.tcp_forward[i]},
};
const has = (name) => { const {value} = shown[name]; for (let i = 0; i < count; ++i) if (value(i, false) !== null || value(i, true) !== null) return true; return false; };
const modes = Object.keys(shown).filter(has);

// magma, in eleven steps of equal lightness: pale is normal in light, dark is normal in dark; what is slow stands out in both.
const ramp = [[0, 0, 4], [20, 14, 54], [59, 15, 112], [100, 26, 128], [140, 41, 129], [183, 55, 121], [222, 73, 104], [247, 112, 92], [254, 159, 109], [254, 207, 146], [252, 253, 191]];
const ramp_at = (part) => {
  const at = Math.min(1, Math.max(0, part)) * (ramp.length - 1), low = Math.min(ramp.length - 2, Math.floor(at));
  return ramp[low].map((value, i) => Math.round(value + (ramp[low + 1][i] - value) * (at - low)));
};
// 0: normal, 1: the worst. Not the very ends: these are nearly the page's own colours.
const shade = (badness) => ramp_at(is_dark() ? 0.16 + 0.84 * badness : 1 - 0.88 * badness);
const css = ([r, g, b]) => `rgb(${r},${g},${b})`;
const ink_on = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111" : "#fff";

function scale_of(values, more_is_worse) {
  if (!values.length) return null;
  const middle = median(values);
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  const worst = more_is_worse ? Math.max(high, 2 * middle) : Math.min(low, 0.8 * middle);
  const best = more_is_worse ? Math.min(low, middle) : Math.max(high, middle);
  return {middle, worst, best, badness: (value) => worst === best ? 0 : (value - best) / (worst - best)};
}

// --- Head ---
const about = [data.schedule + " schedule", plural(nodes.length, "node"), plural(most_rails, "rail"),
               data.on_gpu ? "GPU memory" : "host memory", data.started, seconds(data.seconds)];
document.getElementById("about").textContent = about.filter(Boolean).join(" · ");
if (data.ended_early) note(`Ended early (${data.ended_early}): ${count} of ${data.planned} pairs were measured.`, true);
for (const text of data.notes) if (!data.ended_early || !text.startsWith("ended early")) note(text);

const verdict_tag = tag_of[data.verdict] || "warn";
const cards = add(page, "div", {class: "cards"});
const card = (name, value, kind) => add(add(cards, "div", {class: "card " + (kind || "")}, ), "b", {text: value}).parentElement.append(Object.assign(document.createElement("span"), {className: "soft", textContent: name}));
card("verdict", data.verdict, verdict_tag);
card("median, Gb/s", number(data.median_gbps));
card("median deviation, Gb/s", number(data.mad_gbps));
if (data.floor_gbps !== null) card("floor, Gb/s", number(data.floor_gbps));
card("median latency, us", number(data.median_latency_us));
card("pairs measured", count === data.planned ? String(count) : `${count} of ${data.planned}`);
card("faults", String(data.faults.length), data.faults.length ? verdict_tag : "");

// --- Faults and suspects ---
const top_part = section(data.faults.length ? "Faults" : count ? "No faults" : "No results");
if (!count) add(top_part, "p", {text: "Nothing was measured."});
else if (!data.faults.length) add(top_part, "p", {class: "soft", text: "No node, rail, link or direction stands out."});
const fault_list = add(top_part, "ul", {class: "faults"});
const most_faults = 200;
for (const [kind, text, critical] of data.faults.slice(0, most_faults)) {
  const line = add(fault_list, "li");
  add(line, "span", {class: "tag " + (critical ? "bad" : "warn"), text: kind});
  add(line, "span", {text});
}
if (data.faults.length > most_faults) add(top_part, "p", {class: "soft", text: `and ${data.faults.length - most_faults} more`});
if (data.suspects) {
  add(top_part, "p", {class: "soft", text: "Suspects, as a Slurm host list:"});
  copy_box(top_part, data.suspects, "suspects");
}

// --- Facts of one pair ---
function facts_of_result(i, back) {
  const rows = [], share = (value) => data.median_gbps && value !== null ? ` (${percent(value / data.median_gbps)} of the median)` : "";
  const [from, to] = back ? [results.b[i], results.a[i]] : [results.a[i], results.b[i]];
  const [from_rail, to_rail] = back ? [results.rail_b[i], results.rail_a[i]] : [results.rail_a[i], results.rail_b[i]];
  const ways = back ? [results.backward[i], results.forward[i]] : [results.forward[i], results.backward[i]];
  rows.push(["ports", `${rail_label(from, from_rail)} – ${rail_label(to, to_rail)}`]);
  if (problems.has(i)) rows.push(["problem", problems.get(i)]);
  if (ways[0] !== null) rows.push(["sends", number(ways[0]) + " Gb/s" + share(ways[0])]);
  if (ways[1] !== null) rows.push(["receives", number(ways[1]) + " Gb/s" + share(ways[1])]);
  if (results.both[i] !== null) rows.push(["both ways", number(results.both[i]) + " Gb/s"]);
  if (results.latency[i] !== null) rows.push(["latency", `${number(results.latency[i])} us median, ${number(results.p99[i])} us 99 %`]);
  const tcp = back ? [results.tcp_backward[i], results.tcp_forward[i]] : [results.tcp_forward[i], results.tcp_backward[i]];
  if (tcp[0] !== null || tcp[1] !== null) rows.push(["TCP", `sends ${number(tcp[0])}, receives ${number(tcp[1])} Gb/s`]);
  if (results.mtu[i]) rows.push(["path MTU", String(results.mtu[i])]);
  if (results.wrong[i]) rows.push(["data", "wrong"]);
  rows.push(["state", states[results.state[i]] + (results.retest[i] ? ", measured again" : "")]);
  for (const text of result_notes.get(i) || []) rows.push(["note", text]);
  return rows;
}
const pair_title = (from, to) => from === to ? nodes[from].name + " with itself" : `${nodes[from].name} → ${nodes[to].name}`;

// --- Heat map ---
const parts = add(page, "div", {class: "columns wide"});
const map_part = section("Pairs", parts);
const map = {mode: modes[0] || "sends", rail: "worst", order: "given"};
const controls = add(map_part, "div", {class: "controls"});
if (modes.length) choice(controls, "shown", modes.map((name) => [name, shown[name].label]), map.mode, (name) => { map.mode = name; draw_all(); });
if (most_rails > 1) {
  const rail_names = [...Array(most_rails).keys()].map((rail) => {
    const node = nodes.findIndex((one) => one.rails.length > rail);
    return [String(rail), `rail ${rail} (${rail_label(node, rail)})`];
  });
  select(controls, "rail", [["worst", "worst rail"], ["median", "median of all"], ...rail_names], map.rail, (rail) => { map.rail = rail; draw_all(); });
}
if (nodes.length > 2) select(controls, "order", [["given", "by name"], ["slow", "slowest first"]], map.order, (order) => { map.order = order; draw_all(); });
const map_what = add(map_part, "p", {class: "soft"});
const map_box = add(map_part, "div", {class: "scroll map"});
const cursor_box = add(map_box, "div", {class: "cursor", hidden: true});
const canvas = add(map_box, "canvas", {id: "map", tabindex: 0, role: "application", "aria-label": "node by node; arrow keys move from pair to pair, the numbers are told below", "aria-describedby": "pair"});
const legend = add(map_part, "div", {class: "legend soft"});
const side = add(parts, "div");
const pair_part = section("Pair", side);
const pair_facts = add(pair_part, "div", {class: "facts", id: "pair", "aria-live": "polite"});
add(pair_facts, "p", {class: "soft", text: "Point at a cell, or move there with the arrow keys."});

// Of each cell (from * nodes + to) the results: 2 i, or 2 i + 1 for the way back.
const cells = new Map();
function put(from, to, entry) {
  const key = from * nodes.length + to;
  const there = cells.get(key);
  if (there) there.push(entry); else cells.set(key, [entry]);
}
for (let i = 0; i < count; ++i) {
  put(results.a[i], results.b[i], 2 * i);
  if (results.a[i] !== results.b[i]) put(results.b[i], results.a[i], 2 * i + 1);
}
const rail_of = (entry) => entry % 2 ? results.rail_b[entry >> 1] : results.rail_a[entry >> 1];

// The value of a cell, the entry that it comes from, and whether one failed.
function cell_of(from, to) {
  const entries = (cells.get(from * nodes.length + to) || []).filter((entry) => !(map.rail >= 0) || rail_of(entry) === Number(map.rail));
  if (!entries.length) return null;
  const {value, more_is_worse} = shown[map.mode];
  const values = entries.map((entry) => [value(entry >> 1, entry % 2 === 1), entry]).filter(([one]) => one !== null);
  const failed = entries.find((entry) => results.state[entry >> 1] === 3);
  values.sort((one, other) => (more_is_worse ? -1 : 1) * (one[0] - other[0]));
  const chosen = values[map.rail === "median" ? values.length >> 1 : 0];
  return {value: chosen ? chosen[0] : null, entry: failed !== undefined ? failed : chosen ? chosen[1] : entries[0], failed: failed !== undefined};
}

function values_of(chosen) {
  const {value} = shown[map.mode], values = [], one_way = map.mode === "both" || map.mode === "latency";
  for (let i = 0; i < count; ++i) {
    if (!chosen(i)) continue;
    for (const one of one_way || results.a[i] === results.b[i] ? [value(i, false)] : [value(i, false), value(i, true)]) if (one !== null) values.push(one);
  }
  return values;
}

let shown_cells = [], order = [], geometry = {}, cursor = null, scale = null;
function collect() {
  order = [...nodes.keys()];
  const badness = (node) => { const one = nodes[node]; return one.state === "failed" ? -1 : Math.min(one.sends ?? 1e9, one.receives ?? 1e9); };
  if (map.order === "slow") order.sort((one, other) => badness(one) - badness(other) || one - other);
  shown_cells = order.map((from) => order.map((to) => cell_of(from, to)));
  // One scale for all rails: a slow rail is not to look normal where it alone is shown.
  scale = scale_of(values_of(() => true), shown[map.mode].more_is_worse);
}
function lay_out() {
  const size = nodes.length, context = canvas.getContext("2d");
  context.font = "12px system-ui, sans-serif";
  let widest = 0;
  for (const {name} of nodes) widest = Math.max(widest, context.measureText(name).width);
  const room = Math.max(240, map_part.clientWidth - 34);
  const labels = Math.min(Math.ceil(widest) + 8, room < 500 ? 76 : 150);
  const most = Math.min(room - labels, Math.max(360, innerHeight - 120));
  const cell = Math.max(size > 400 ? 1 : 2, Math.min(size <= 4 ? 96 : size <= 12 ? 60 : 46, Math.floor(most / Math.max(1, size))));
  geometry = {labels, cell, size, edge: labels + cell * size, room};
}
const short_name = (context, name, room) => {
  if (context.measureText(name).width <= room) return name;
  let end = name.length;
  while (end > 1 && context.measureText("…" + name.slice(-end)).width > room) --end;
  return "…" + name.slice(-end); // the end tells host names apart
};
function draw_labels(context) {
  const {labels, cell, size} = geometry;
  const every = Math.ceil(13 / cell);
  context.fillStyle = colour("--soft");
  context.textBaseline = "middle";
  for (let i = 0; i < size; i += every) {
    const name = short_name(context, nodes[order[i]].name, labels - 6), middle = labels + (i + 0.5) * Math.max(cell, 0);
    context.textAlign = "right";
    context.fillText(name, labels - 5, middle);
    context.save();
    context.translate(middle, labels - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(name, 0, 0);
    context.restore();
  }
}
function draw_cell(context, x, y, cell) {
  const {cell: size} = geometry, gap = size > 6 ? 1 : 0;
  if (!cell || (cell.value === null && !cell.failed)) {
    context.fillStyle = colour_of.fill;
    context.fillRect(x, y, size - gap, size - gap);
    return;
  }
  const tint = cell.value === null ? null : shade(scale.badness(cell.value));
  context.fillStyle = tint ? css(tint) : colour_of.bad_fill;
  context.fillRect(x, y, size - gap, size - gap);
  if (cell.failed) { // a cross, also for who sees no colours
    context.strokeStyle = tint ? ink_on(tint) : colour_of.bad;
    context.lineWidth = size > 10 ? 2 : 1;
    context.beginPath();
    const inset = size > 6 ? size * 0.25 : 0;
    context.moveTo(x + inset, y + inset); context.lineTo(x + size - gap - inset, y + size - gap - inset);
    context.moveTo(x + size - gap - inset, y + inset); context.lineTo(x + inset, y + size - gap - inset);
    context.stroke();
  } else if (size >= 34) {
    context.fillStyle = ink_on(tint);
    context.textAlign = "center";
    context.fillText(number(cell.value), x + size / 2, y + size / 2);
  }
}
let colour_of = {};
// An element of its own: a million cells need not be drawn again for it.
function place_cursor() {
  const {labels, cell} = geometry;
  cursor_box.hidden = !cursor;
  if (!cursor) return;
  Object.assign(cursor_box.style, {left: labels + cursor.column * cell - 2 + "px", top: labels + cursor.row * cell - 2 + "px", width: cell + 4 + "px", height: cell + 4 + "px"});
}
function draw_map() {
  lay_out();
  const {labels, cell, size, edge} = geometry, ratio = devicePixelRatio || 1;
  canvas.width = edge * ratio; canvas.height = edge * ratio;
  canvas.style.width = canvas.style.height = edge + "px";
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.font = "12px system-ui, sans-serif";
  colour_of = {fill: colour("--fill"), bad: colour("--bad"), bad_fill: colour("--bad-fill")};
  draw_labels(context);
  for (let row = 0; row < size; ++row) for (let column = 0; column < size; ++column) draw_cell(context, labels + column * cell, labels + row * cell, shown_cells[row][column]);
  place_cursor();
}
function draw_legend() {
  legend.replaceChildren();
  if (!scale) return;
  const unit = shown[map.mode].unit;
  add(legend, "span", {text: `${number(scale.worst)} ${unit}`});
  const bar = add(legend, "span", {style: "width:160px;height:12px;border-radius:3px;display:inline-block"});
  bar.style.background = `linear-gradient(90deg, ${[1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0].map((bad) => css(shade(bad))).join()})`;
  add(legend, "span", {text: `${number(scale.best)} ${unit}`});
  add(legend, "span", {text: `median ${number(scale.middle)}`});
  add(legend, "span", {text: "× failed"});
  add(legend, "span", {text: "plain: not measured"});
}
function tell(row, column, at) {
  const from = order[row], to = order[column], cell = shown_cells[row][column];
  const title = pair_title(from, to);
  const rows = cell ? facts_of_result(cell.entry >> 1, cell.entry % 2 === 1) : [["state", from === to ? "the node itself" : "not measured"]];
  fill_facts(pair_facts, title, rows);
  if (at) show_tip(at.x, at.y, title, rows);
}
function cell_at(event) {
  const box = canvas.getBoundingClientRect(), {labels, cell, size} = geometry;
  const column = Math.floor((event.clientX - box.left - labels) / cell), row = Math.floor((event.clientY - box.top - labels) / cell);
  return row >= 0 && column >= 0 && row < size && column < size ? {row, column} : null;
}
canvas.addEventListener("pointermove", (event) => {
  const at = cell_at(event);
  if (at) tell(at.row, at.column, {x: event.clientX, y: event.clientY}); else hide_tip();
});
canvas.addEventListener("pointerleave", hide_tip);
canvas.addEventListener("pointerdown", (event) => { cursor = cell_at(event); if (cursor) tell(cursor.row, cursor.column); place_cursor(); });
canvas.addEventListener("keydown", (event) => {
  const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
  if (!step || !nodes.length) return;
  event.preventDefault();
  const inside = (at) => Math.max(0, Math.min(nodes.length - 1, at));
  cursor = cursor ? {row: inside(cursor.row + step[0]), column: inside(cursor.column + step[1])} : {row: 0, column: Math.min(1, nodes.length - 1)};
  tell(cursor.row, cursor.column);
  place_cursor();
  cursor_box.scrollIntoView({block: "nearest", inline: "nearest"});
});

// --- Distribution ---
const spread_part = section("Distribution", side);
const spread_box = add(spread_part, "div");
function draw_spread() {
  spread_box.replaceChildren();
  const {unit, more_is_worse} = shown[map.mode];
  const values = values_of((i) => !(map.rail >= 0) || results.rail_a[i] === Number(map.rail));
  if (!values.length) { add(spread_box, "p", {class: "soft", text: "nothing to show"}); return; }
  const floor = !more_is_worse && (map.mode === "sends" || map.mode === "receives") ? data.floor_gbps : null, middle = median(values);
  let low = Infinity, high = -Infinity;
  for (const one of values) { low = Math.min(low, one); high = Math.max(high, one); }
  if (floor !== null) { low = Math.min(low, floor); high = Math.max(high, floor); }
  const pad = (high - low) * 0.03 || Math.abs(high) * 0.05 || 1;
  low = Math.max(0, low - pad); high += pad;
  const bins = 48, heights = new Array(bins).fill(0);
  for (const one of values) ++heights[Math.min(bins - 1, Math.floor((one - low) / (high - low) * bins))];
  const width = Math.max(260, spread_part.clientWidth - 34), height = 200, left = 56, bottom = 34, top = 30;
  const tallest = Math.max(...heights), x = (one) => left + (one - low) / (high - low) * (width - left - 20), y = (many) => height - bottom - many / tallest * (height - bottom - top);
  const picture = add(spread_box, "svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${values.length} values, median ${number(middle)} ${unit}`});
  heights.forEach((many, bin) => {
    if (!many) return;
    const from = low + bin * (high - low) / bins, to = from + (high - low) / bins;
    const bar = add(picture, "rect", {class: "bar", x: x(from), y: Math.min(y(many), height - bottom - 2), width: Math.max(1, x(to) - x(from) - 1), height: Math.max(2, height - bottom - y(many))});
    bar.addEventListener("pointermove", (event) => show_tip(event.clientX, event.clientY, `${number(from)} to ${number(to)} ${unit}`, [["values", String(many)]]));
    bar.addEventListener("pointerleave", hide_tip);
  });
  add(picture, "line", {class: "axis", x1: left, x2: width - 8, y1: height - bottom, y2: height - bottom});
  const step = nice_step(high - low, Math.max(2, Math.floor(width / 90)));
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) add(picture, "text", {x: x(tick), y: height - bottom + 15, "text-anchor": "middle", text: tick_text(tick, step)});
  add(picture, "text", {x: width - 8, y: height - 4, "text-anchor": "end", text: unit});
  add(picture, "text", {x: left - 6, y: y(tallest) + 4, "text-anchor": "end", text: String(tallest)});
  const mark = (at, text, line_y, colour_name, dash) => {
    add(picture, "line", {x1: x(at), x2: x(at), y1: line_y + 4, y2: height - bottom, stroke: `var(${colour_name})`, "stroke-width": 2, "stroke-dasharray": dash});
    const right = x(at) > width * 0.6;
    add(picture, "text", {class: "strong", x: x(at) + (right ? -5 : 5), y: line_y + 8, "text-anchor": right ? "end" : "start", text});
  };
  mark(middle, `median ${number(middle)}`, 4, "--ink", "");
  if (floor !== null) mark(floor, `floor ${number(floor)}`, 18, "--bad", "5 3");
}

// --- Nodes and their rails ---
const node_part = section("Nodes and rails");
add(node_part, "p", {class: "soft", text: "Medians over the pairs of a node, in Gb/s. A rail's cell is the slower one of its directions."});
const rail_values = nodes.map((node) => node.rails.map(() => [[], []]));
for (let i = 0; i < count; ++i) {
  const note_way = (value, from, from_rail, to, to_rail) => {
    if (value === null) return;
    rail_values[from][from_rail]?.[0].push(value);
    rail_values[to][to_rail]?.[1].push(value);
  };
  note_way(results.forward[i], results.a[i], results.rail_a[i], results.b[i], results.rail_b[i]);
  note_way(results.backward[i], results.b[i], results.rail_b[i], results.a[i], results.rail_a[i]);
}
const rail_scores = rail_values.map((rails) => rails.map(([sent, received]) => ({sends: median(sent), receives: median(received)})));
const lower = ({sends, receives}) => sends === null ? receives : receives === null ? sends : Math.min(sends, receives);
const rail_scale = scale_of(rail_scores.flat().map(lower).filter((value) => value !== null), false);
const node_rows = nodes.map((node, index) => ({...node, index}));
const state_paint = (cell, row) => { cell.replaceChildren(); add(cell, "span", {class: "tag " + tag_of[row.state], text: row.state}); };
const draw_nodes = table(node_part, [
  {name: "node", text: true, value: (row) => row.name},
  {name: "state", text: true, value: (row) => row.state, paint: state_paint},
  {name: "sends", value: (row) => row.sends},
  {name: "receives", value: (row) => row.receives},
  {name: "latency us", value: (row) => row.latency},
  {name: "pairs", value: (row) => row.pairs, show: String},
  {name: "slow", value: (row) => row.slow, show: String},
  {name: "failed", value: (row) => row.failed, show: String},
  ...[...Array(most_rails > 1 ? most_rails : 0).keys()].map((rail) => ({
    name: "rail " + rail,
    value: (row) => rail_scores[row.index][rail] ? lower(rail_scores[row.index][rail]) : null,
    paint: (cell, row) => {
      const score = rail_scores[row.index][rail], value = score && lower(score);
      if (value === null || value === undefined) return;
      const tint = shade(rail_scale.badness(value));
      cell.style.background = css(tint); cell.style.color = ink_on(tint);
      cell.title = `${rail_label(row.index, rail)}: sends ${number(score.sends)}, receives ${number(score.receives)} Gb/s`;
    },
  })),
  ...(nodes.some((node) => node.problem) ? [{name: "problem", wrap: true, value: (row) => row.problem, show: (text) => text}] : []),
], node_rows, "nodes and rails");

// --- Worst pairs ---
const worst_part = section("Worst pairs");
const worst = [];
for (let i = 0; i < count; ++i) {
  const speeds = [results.forward[i], results.backward[i]].filter((value) => value !== null);
  const speed = speeds.length ? Math.min(...speeds) : null;
  if (speed !== null || problems.has(i)) worst.push({i, speed, rank: speed === null ? Infinity : speed});
}
worst.sort((one, other) => one.rank === other.rank ? one.i - other.i : one.rank - other.rank); // failed ones last: the faults tell them
worst.splice(50);
table(worst_part, [
  {name: "pair", text: true, value: ({i}) => pair_title(results.a[i], results.b[i])},
  {name: "ports", text: true, value: ({i}) => `${rail_label(results.a[i], results.rail_a[i])} – ${rail_label(results.b[i], results.rail_b[i])}`},
  {name: "state", text: true, value: ({i}) => states[results.state[i]], paint: (cell, {i}) => state_paint(cell, {state: states[results.state[i]]})},
  {name: "sends", value: ({i}) => results.forward[i]},
  {name: "receives", value: ({i}) => results.backward[i]},
  {name: "of median", value: ({speed}) => speed === null || !data.median_gbps ? null : speed / data.median_gbps, show: (share) => share === null ? "–" : percent(share)},
  {name: "latency us", value: ({i}) => results.latency[i]},
  {name: "why", wrap: true, value: ({i}) => [problems.get(i), ...(result_notes.get(i) || [])].filter(Boolean).join("; "), show: (text) => text},
], worst, "worst pairs");

function draw_all() {
  map_what.textContent = shown[map.mode].what + ", " + shown[map.mode].unit;
  collect();
  draw_map(); draw_legend(); draw_spread();
}
on_theme.push(() => { draw_map(); draw_legend(); draw_spread(); draw_nodes(); });
collect();
draw_all();
set_theme();
let resized = 0, last_width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== last_width) { last_width = innerWidth; cancelAnimationFrame(resized); resized = requestAnimationFrame(() => { draw_map(); draw_spread(); }); } });
