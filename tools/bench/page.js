// rdma-nccl bench: busbw over size of each run, the table of with and without RDMA, and what each run really used.
const runs = data.runs;
const colours = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5"], dashes = ["", "7 4", "2 3", "10 3 2 3", "4 2", "1 4"];
const style_of = new Map(); // by the run's name: the same in all pictures
for (const run of runs) if (!style_of.has(run.name)) style_of.set(run.name, style_of.size);
const run_colour = (run) => `var(${colours[style_of.get(run.name) % colours.length]})`;
const run_dash = (run) => dashes[style_of.get(run.name) % dashes.length];
const run_label = (run) => run.what ? `${run.name}: ${run.what}` : run.name;

document.getElementById("about").textContent = [data.host_memory ? "host memory, no GPU" : data.gpus.join(", "), plural(data.nodes.length, "node"), plural(runs.length, "run"), data.started, seconds(data.seconds)].filter(Boolean).join(" · ");
if (data.ended_early) note(`Ended early (${data.ended_early}): what is shown is what was measured until then.`, true);
if (data.software_rdma) note("Software RDMA: a functional test only; RDMA may well be slower than TCP here.");
for (const run of runs) if (run.flag) note(`Run ${run_label(run)}, ${run.ranks} ${data.host_memory ? "ranks" : "GPUs"}: ${run.flag}.`, run.flag_is_bad);
for (const run of runs) if (run.wrong) note(`Run ${run_label(run)}, ${run.ranks} ${data.host_memory ? "ranks" : "GPUs"}: WRONG VALUES: ${run.wrong}.`, true);
if (!runs.some((run) => run.results.length)) note("Nothing was measured.", true);

// --- With and without ---
const ratio_part = section("With and without RDMA");
const tenths = (value) => value === null ? "-" : value.toFixed(1); // as in the terminal
const grade = (state) => ({good: "good", critical: "bad"})[state] || "warn";
const ratio_head = data.host_memory ? "ranks" : "GPUs";
if (data.summary.length) {
  add(ratio_part, "p", {class: "soft", text: "Bus bandwidth in Gb/s at the largest size: the mean of the runs that used RDMA, against the one without. A ratio only where the counters prove both."});
  table(ratio_part, [
    {name: "operation", text: true, value: (row) => row.operation},
    {name: ratio_head, value: (row) => row.ranks, show: String},
    {name: "nodes", value: (row) => row.nodes, show: String},
    {name: "size", value: (row) => row.size, show: bytes},
    {name: "by RDMA", value: (row) => row.rdma && row.rdma.bus_gbps, show: tenths},
    {name: "no RDMA", value: (row) => row.no_rdma && row.no_rdma.bus_gbps, show: tenths},
    ...(data.summary.some((row) => row.no_gpu_direct) ? [{name: "no GPUDirect", value: (row) => row.no_gpu_direct && row.no_gpu_direct.bus_gbps, show: tenths}] : []),
    {name: "ratio", value: (row) => row.ratio, show: (value) => value === null ? "-" : value.toFixed(2)},
    {name: "verdict", wrap: true, value: (row) => row.notes.join("; "), show: (text) => text, paint: (cell, row) => { cell.replaceChildren(); add(cell, "span", {class: "tag " + grade(row.state), text: row.notes.join("; "), style: "white-space:normal"}); }},
  ], data.summary, "with and without RDMA");
} else add(ratio_part, "p", {class: "soft", text: "No size was measured both ways."});

// --- The plot ---
const plot_part = section("Bandwidth over size");
const unique = (values) => [...new Set(values)];
const all_rows = runs.flatMap((run) => run.results);
const operations = unique(all_rows.map((row) => row.operation)), rank_counts = unique(runs.map((run) => run.ranks)).sort((a, b) => a - b);
const quantities = {
  busbw: {label: "busbw", unit: () => plot.unit === "bits" ? "Gb/s" : "GB/s", value: ({out_of_place}) => out_of_place.bus_bw * (plot.unit === "bits" ? 8 : 1)},
  algbw: {label: "algbw", unit: () => plot.unit === "bits" ? "Gb/s" : "GB/s", value: ({out_of_place}) => out_of_place.alg_bw * (plot.unit === "bits" ? 8 : 1)},
  time: {label: "time", unit: () => "us", value: (row) => row.out_of_place.time},
};
const plot = {operation: operations[0], ranks: String(rank_counts[rank_counts.length - 1]), quantity: "busbw", unit: "bits", at: null};
const controls = add(plot_part, "div", {class: "controls"});
const redraw = () => draw_plot();
if (operations.length > 1) select(controls, "operation", operations.map((one) => [one, one]), plot.operation, (one) => { plot.operation = one; redraw(); });
if (rank_counts.length > 1) select(controls, ratio_head, rank_counts.map((one) => [String(one), String(one)]), plot.ranks, (one) => { plot.ranks = one; redraw(); });
choice(controls, "quantity", Object.entries(quantities).map(([name, {label}]) => [name, label]), plot.quantity, (name) => { plot.quantity = name; redraw(); });
choice(controls, "unit", [["bits", "Gb/s"], ["bytes", "GB/s"]], plot.unit, (unit) => { plot.unit = unit; redraw(); });
const plot_box = add(plot_part, "div", {id: "plot", tabindex: 0, role: "application", "aria-label": "bandwidth over size; arrow keys move from size to size", "aria-describedby": "size"});
const plot_legend = add(plot_part, "div", {class: "legend"});
const size_facts = add(plot_part, "div", {class: "facts", id: "size", "aria-live": "polite", style: "min-height:90px;margin-top:8px"});

// Shapes as well as colours tell the runs apart.
function marker(picture, run, x, y) {
  const fill = run_colour(run);
  switch (style_of.get(run.name) % 4) {
    case 0: return add(picture, "circle", {cx: x, cy: y, r: 3.5, fill});
    case 1: return add(picture, "rect", {x: x - 3.5, y: y - 3.5, width: 7, height: 7, fill});
    case 2: return add(picture, "path", {d: `M${x},${y - 4.5}l4.5,8h-9z`, fill});
    default: return add(picture, "path", {d: `M${x},${y - 5}l5,5l-5,5l-5,-5z`, fill});
  }
}
// The bus bandwidths of the slowest and the fastest repeat.
const spread = ({time, time_min, time_max, bus_bw}) => time > 0 && time_min > 0 && time_max > 0 ? [time_max, time_min].map((one) => bus_bw * time / one) : null;
const shown_runs = () => runs.filter((run) => String(run.ranks) === plot.ranks)
  .map((run) => ({run, rows: run.results.filter((row) => row.operation === plot.operation).sort((a, b) => a.size - b.size)})).filter(({rows}) => rows.length);
let plotted = null;
function draw_plot() {
  plot_box.replaceChildren(); plot_legend.replaceChildren();
  const lines = shown_runs(), {value, unit} = quantities[plot.quantity];
  if (!lines.length) { add(plot_box, "p", {class: "soft", text: "nothing to show"}); plotted = null; return; }
  const sizes = unique(lines.flatMap(({rows}) => rows.map((row) => row.size))).sort((a, b) => a - b);
  const width = Math.max(280, plot_part.clientWidth - 34), height = Math.min(460, Math.max(260, width * 0.42)), left = 58, right = 28, top = 14, bottom = 40;
  const first = Math.log2(Math.max(1, sizes[0])), last = Math.log2(Math.max(1, sizes[sizes.length - 1]));
  const most = Math.max(1e-9, ...lines.flatMap(({rows}) => rows.map(value))) * 1.06;
  const x = (size) => left + (last === first ? 0.5 : (Math.log2(Math.max(1, size)) - first) / (last - first)) * (width - left - right);
  const y = (one) => height - bottom - one / most * (height - top - bottom);
  const picture = add(plot_box, "svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${plot.quantity} of ${plot.operation} over size`});
  const step = nice_step(most, 5);
  for (let tick = 0; tick <= most; tick += step) {
    add(picture, "line", {class: "axis", x1: left, x2: width - right, y1: y(tick), y2: y(tick)});
    add(picture, "text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end", text: tick_text(tick, step)});
  }
  const every = Math.ceil((last - first + 1) / Math.max(2, Math.floor(width / 74)));
  for (let power = Math.ceil(first); power <= last; power += Math.max(1, every)) add(picture, "text", {x: x(2 ** power), y: height - bottom + 18, "text-anchor": "middle", text: bytes(2 ** power)});
  add(picture, "text", {x: width - right, y: height - 4, "text-anchor": "end", text: `size; ${plot.quantity} in ${unit()}`});
  plotted = {lines, sizes, x, picture, guide: add(picture, "line", {y1: top, y2: height - bottom, stroke: "var(--soft)", visibility: "hidden"})};
  for (const {run, rows} of lines) {
    add(picture, "polyline", {points: rows.map((row) => `${x(row.size)},${y(value(row))}`).join(" "), fill: "none", stroke: run_colour(run), "stroke-width": 2, "stroke-dasharray": run_dash(run)});
    for (const row of rows) {
      const [low, high] = plot.quantity === "busbw" && spread(row.out_of_place) || [];
      if (low !== undefined) add(picture, "line", {x1: x(row.size), x2: x(row.size), y1: y(low * (plot.unit === "bits" ? 8 : 1)), y2: Math.max(top, y(high * (plot.unit === "bits" ? 8 : 1))), stroke: run_colour(run), "stroke-width": 1});
      marker(picture, run, x(row.size), y(value(row)));
    }
    const item = add(plot_legend, "span");
    const sample = add(item, "svg", {width: 34, height: 12, style: "display:inline-block;vertical-align:-1px"});
    add(sample, "line", {x1: 0, x2: 34, y1: 6, y2: 6, stroke: run_colour(run), "stroke-width": 2, "stroke-dasharray": run_dash(run)});
    marker(sample, run, 17, 6);
    item.append(" " + run_label(run));
    if (run.flag) add(item, "span", {class: run.flag_is_bad ? "tag bad" : "tag warn", text: run.flag, style: "margin-left:6px;white-space:normal"});
  }
  if (plot.at !== null) tell_size(plot.at);
}
function facts_of_size(size) {
  const {value, unit} = quantities[plot.quantity];
  return plotted.lines.map(({run, rows}) => {
    const row = rows.find((one) => one.size === size);
    if (!row) return [run_label(run), "–"];
    const {time, time_min, time_max, nwrong} = row.out_of_place;
    return [run_label(run), `${number(value(row))} ${unit()}, ${number(time)} us (${number(time_min)} to ${number(time_max)})${nwrong ? `, ${nwrong} wrong values` : ""}`];
  });
}
function tell_size(size, at) {
  plot.at = size;
  if (!plotted) return;
  plotted.guide.setAttribute("x1", plotted.x(size)); plotted.guide.setAttribute("x2", plotted.x(size)); plotted.guide.setAttribute("visibility", "visible");
  const title = `${plot.operation}, ${bytes(size)}`, rows = facts_of_size(size);
  fill_facts(size_facts, title, rows);
  if (at) show_tip(at.x, at.y, title, rows);
}
plot_box.addEventListener("pointermove", (event) => {
  if (!plotted) return;
  const at = event.clientX - plotted.picture.getBoundingClientRect().left;
  const nearest = plotted.sizes.reduce((best, size) => Math.abs(plotted.x(size) - at) < Math.abs(plotted.x(best) - at) ? size : best);
  tell_size(nearest, {x: event.clientX, y: event.clientY});
});
plot_box.addEventListener("pointerleave", hide_tip);
plot_box.addEventListener("keydown", (event) => {
  const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  if (!step || !plotted) return;
  event.preventDefault();
  const at = plotted.sizes.indexOf(plot.at);
  tell_size(plotted.sizes[Math.max(0, Math.min(plotted.sizes.length - 1, at < 0 ? 0 : at + step))]);
});
add(size_facts, "p", {class: "soft", text: "Point at the plot, or move there with the arrow keys."});

// --- Runs ---
const columns_of = (before, place) => [["time us", "time"], ["algbw GB/s", "alg_bw"], ["busbw GB/s", "bus_bw"], ["#wrong", "nwrong"]].map(([name, member]) => ({
  name: (member === "time" ? before : "") + name, value: (row) => row[place] && row[place][member],
  show: member === "nwrong" ? (wrong) => wrong === null ? "N/A" : String(wrong) : undefined}));
const run_parts = add(page, "div", {class: "columns runs"});
for (const run of runs) {
  const part = section(`Run ${run_label(run)}, ${run.ranks} ${data.host_memory ? "ranks" : "GPUs"}`, run_parts);
  const line = add(part, "p");
  add(line, "span", {class: "tag " + (run.flag ? run.flag_is_bad ? "bad" : "warn" : "good"), text: run.flag || run.words, style: "white-space:normal"});
  if (run.wrong) add(part, "p", {class: "note bad", text: `WRONG VALUES: ${run.wrong}`});
  if (run.verdict) add(part, "p", {text: run.verdict});
  if (run.problem) add(part, "p", {class: "note bad", text: run.problem});
  if (run.library) add(part, "p", {class: "soft", text: run.library});
  const variables = Object.entries(run.variables);
  if (variables.length) {
    const list = add(part, "p");
    for (const [name, value] of variables) { add(list, "code", {text: `${name}=${value}`}); list.append(" "); }
  }
  if (run.results.length) {
    const details = add(part, "details");
    add(details, "summary", {text: plural(run.results.length, "row")});
    table(details, [
      {name: "operation", text: true, value: (row) => row.operation},
      {name: "size B", value: (row) => row.size, show: String},
      {name: "count", value: (row) => row.count, show: String},
      {name: "type", text: true, value: (row) => row.type},
      {name: "redop", text: true, value: (row) => row.redop},
      ...columns_of("", "out_of_place"),
      ...(run.results.some((row) => row.in_place) ? columns_of("in place: ", "in_place") : []),
    ], [...run.results], run_label(run));
  }
}
const where = section("Nodes");
add(where, "p", {text: data.nodes.join(", ") || "unknown"});

draw_plot();
set_theme();
let last_width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== last_width) { last_width = innerWidth; draw_plot(); } });
