// Sums of a selected time in some lanes, by name, by kind or by lane, and the work of each GPU in that time.

const MERGED_HERE = "merged in this page";
const ROWS = 100; // of the table
const SUM_COLUMNS = [
  ["name", "name", String],
  ["count", "count", counted],
  ["total", "total", duration],
  ["mean", "mean", duration],
  ["share", "of the time", percent],
];

// Several timelines have columns each; two also have the change from the first to the second.
const columnsOf = (parts) => {
  if (parts.length < 2) return SUM_COLUMNS;
  const named = (what, format) => parts.map(({ root }, part) => [`${what} ${part}`, `${what} ${root.dataset.name}`, format]);
  const change = parts.length === 2 ? [["change", "change", signed]] : [];
  return [SUM_COLUMNS[0], ...named("total", duration), ...change, ...named("count", counted)];
};

const signed = (ns) => (ns > 0 ? `+${duration(ns)}` : duration(ns));
const noneOf = (parts) => Object.fromEntries(parts.flatMap((_, part) => [[`count ${part}`, 0], [`total ${part}`, 0]]));

// The keys that events are summed by.
const SUM_KEYS = {
  name: (data, lane, at) => (lane.count?.[at] > 1 ? MERGED_HERE : nameOf(data, { lane, first: at })),
  kind: (data, lane, at) => data.kinds[lane.kind[at]].label,
  lane: (data, lane) => `${lane.stream ?? (lane.label || lane.source)} (${lane.group})`,
};

// Calls visit(lane, at, ns within the selection) for each selected event that is not hidden.
const visitSelected = (timeline, { from, to, lanes }, visit) => {
  for (const lane of lanes) {
    for (let at = firstAbove(lane.end, from); at < lane.size && lane.start[at] < to; at++) {
      if (timeline.hidden.has(lane.kind[at])) continue;
      const length = lane.end[at] - lane.start[at];
      const inside = Math.min(lane.end[at], to) - Math.max(lane.start[at], from);
      const busy = lane.busy && length > 0 ? (lane.busy[at] * inside) / length : inside;
      visit(lane, at, busy);
    }
  }
};

// The timelines with a selection: those that share a view are summed together.
const selectedWith = (timeline) => {
  const parts = drawnWith(timeline).filter(({ selection }) => selection);
  return parts.length || !timeline.selection ? parts : [timeline];
};

const sumsBy = (parts, by) => {
  const sums = new Map();
  const keyOf = SUM_KEYS[by];
  const span = parts[0].selection.to - parts[0].selection.from;
  parts.forEach((timeline, part) => visitSelected(timeline, timeline.selection, (lane, at, time) => {
    if (MEASURES.has(lane.source)) return;
    const name = keyOf(timeline.data, lane, at);
    let sum = sums.get(name);
    if (!sum) sums.set(name, (sum = { name, count: 0, total: 0, ...noneOf(parts) }));
    const count = lane.count?.[at] ?? 1;
    sum.count += count;
    sum.total += time;
    sum[`count ${part}`] += count;
    sum[`total ${part}`] += time;
  }));
  for (const sum of sums.values()) sum.change = sum["total 1"] - sum["total 0"];
  return [...sums.values()].map((sum) => ({ ...sum, mean: sum.total / sum.count, share: sum.total / span }));
};

// A line for each GPU on its work in the selected time, from its overlap band, if there is one.
const gpuSums = (timeline, { from, to }) =>
  timeline.data.lanes.filter((lane) => lane.source === "overlap").map((lane) => {
    const times = new Map();
    const add = (kind, time) => times.set(kind, (times.get(kind) ?? 0) + time);
    for (let at = firstAbove(lane.end, from); at < lane.size && lane.start[at] < to; at++) {
      const length = lane.end[at] - lane.start[at];
      const part = length > 0 ? (Math.min(lane.end[at], to) - Math.max(lane.start[at], from)) / length : 0;
      for (const [kind, time] of Object.entries(addShares({}, lane, at, length))) add(Number(kind), time * part);
    }
    const longest = [...times].filter(([, time]) => time > 0).sort((one, other) => other[1] - one[1]);
    const parts = longest.map(([kind, time]) => {
      return `${timeline.data.kinds[kind].label} ${duration(time)} (${percent(time / (to - from))})`;
    });
    return `${lane.group}: ${parts.length ? parts.join(", ") : "no work in this time"}`;
  });

const sortedBy = (sums, column, isDown) => {
  const compare = (one, other) =>
    column === "name" ? one.name.localeCompare(other.name) : one[column] - other[column];
  return sums.sort((one, other) => (isDown ? -1 : 1) * compare(one, other));
};

const tableOfSums = (timeline, state, redraw) => {
  const parts = selectedWith(timeline);
  const columns = columnsOf(parts);
  if (!columns.some(([column]) => column === state.column)) state.column = columns[1][0];
  const sums = sortedBy(sumsBy(parts, state.by), state.column, state.isDown);
  const table = newElement("table", "");
  const head = table.createTHead().insertRow();
  for (const [column, title] of columns) {
    const cell = newElement("th", column === "name" ? "" : "count");
    cell.setAttribute("aria-sort", state.column === column ? (state.isDown ? "descending" : "ascending") : "none");
    const arrow = state.column === column ? (state.isDown ? " ▾" : " ▴") : "";
    cell.append(newButton((column === "name" ? state.by : title) + arrow, () => {
      state.isDown = state.column === column ? !state.isDown : column !== "name";
      state.column = column;
      redraw();
    }));
    head.append(cell);
  }
  const body = table.createTBody();
  for (const sum of sums.slice(0, ROWS)) {
    const row = body.insertRow();
    for (const [column, , format] of columns) {
      const cell = newElement(column === "name" ? "th" : "td", column === "name" ? "" : "count");
      if (column === "name") cell.append(newButton(sum.name, () => lightSum(timeline, state.by, sum.name), "event"));
      else cell.textContent = format(sum[column]);
      row.append(cell);
    }
  }
  return [table, sums];
};

// Lights up the events that a row of the table sums.
const lightSum = (timeline, by, name) => {
  const keyOf = SUM_KEYS[by];
  for (const one of selectedWith(timeline)) {
    const { from, to, lanes } = one.selection;
    const inside = new Set(lanes);
    const isInside = (lane, at) => inside.has(lane) && lane.start[at] < to && lane.end[at] > from;
    one.finder.light((lane, at) => isInside(lane, at) && keyOf(one.data, lane, at) === name);
  }
};

const showSums = (timeline, parts = selectedWith(timeline)) => {
  const panel = timeline.root.querySelector(".sums");
  panel.hidden = !parts.length;
  if (!parts.length) {
    panel.replaceChildren();
    return;
  }
  const { from, to } = parts[0].selection;
  const lanes = parts.flatMap(({ selection }) => selection.lanes);
  const state = (timeline.sumsState ??= { by: "name", column: "total", isDown: true });
  const redraw = () => showSums(timeline);
  const [table, sums] = tableOfSums(timeline, state, redraw);
  const events = sums.reduce((sum, { count }) => sum + count, 0);
  const what = `${howMany(events, "event")} in ${howMany(lanes.length, "lane")}`;
  const heading = newElement("strong", "", `${duration(to - from)} selected, ${what}`);
  const choice = newElement("div", "steer");
  for (const by of Object.keys(SUM_KEYS)) {
    const button = newButton(`by ${by}`, () => {
      state.by = by;
      redraw();
    });
    button.setAttribute("aria-pressed", String(state.by === by));
    choice.append(button);
  }
  choice.append(
    newButton("zoom to it", () => timeline.show([from, to])),
  );
  const frame = newElement("div", "frame");
  frame.tabIndex = 0;
  frame.append(table);
  const ofPart = (one) => (parts.length > 1 ? `${one.root.dataset.name}, ` : "");
  const linesOf = (one) => gpuSums(one, one.selection).map((line) => newElement("div", "", ofPart(one) + line));
  const lines = parts.flatMap(linesOf);
  const more = sums.length > ROWS ? [newElement("div", "drawn", `${counted(sums.length - ROWS)} more rows are not shown.`)] : [];
  const focused = panel.contains(document.activeElement) ? document.activeElement.textContent : undefined;
  panel.replaceChildren(heading, ...lines, choice, frame, ...more, closeButton("end selection", () => timeline.select(undefined)));
  if (focused) {
    const plain = (text) => text.replace(/ [▾▴]$/, "");
    [...panel.querySelectorAll("button")].find((one) => plain(one.textContent) === plain(focused))?.focus();
  }
};
