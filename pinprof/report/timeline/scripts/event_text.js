// The text on an event, as lines of plain text. Numbers follow the rules of units.py, which brings the units.

const threeDigits = (value) => {
  const size = Math.abs(value);
  if (size >= 99.95 || value === 0) return value.toFixed(0);
  return size < 9.995 ? value.toFixed(2) : value.toFixed(1);
};

const inUnits = (value, units) => {
  const [scale, unit] = units.find(([one, , up]) => Math.abs(value) >= one * up) ?? units.at(-1);
  return scale === 1 ? `${value.toFixed(0)} ${unit}` : `${threeDigits(value / scale)} ${unit}`;
};

const duration = (ns) => inUnits(ns, TIMES);
const size = (bytes) => inUnits(bytes, SIZES);
const rate = (gbps) => (gbps > 0 && gbps < 0.1 ? `${threeDigits(gbps * 1000)} MB/s` : `${threeDigits(gbps)} GB/s`);
const counted = (number) => number.toLocaleString("en-US");
const howMany = (count, what) => `${counted(count)} ${what}${count === 1 ? "" : "s"}`;

const percent = (share) => {
  const whole = Math.round(share * 100);
  if (whole === 0 && share > 0) return "<1 %";
  return whole === 100 && share < 1 ? ">99 %" : `${whole} %`;
};

const stepAt = (data, time) => {
  const step = firstAbove(data.steps.start, time) - 1;
  return step >= 0 && time < data.steps.end[step] ? step : -1;
};

const startOf = (data, time, step) => {
  const { names, start } = data.steps;
  if (!names.length) return `starts ${duration(time)} into the trace`;
  if (step >= 0) return `starts ${duration(time - start[step])} into ${names[step]}`;
  const nearest = Math.max(firstAbove(start, time) - 1, 0);
  const since = time - start[nearest];
  return `starts ${duration(Math.abs(since))} ${since >= 0 ? "after" : "before"} the start of ${names[nearest]}, in no step`;
};

// A short name for a rectangle.
const labelOf = (data, { lane, first, last }, count = 1) => {
  const kind = data.kinds[lane.kind[first]];
  if (count > 1 || last > first || (lane.count?.[first] ?? 1) > 1) return `${counted(count)} events`;
  if (lane.source === "steps") return data.steps.names[lane.step[first]];
  if (kind.short) {
    const bytes = lane.bytes[first] - 1;
    return kind.short + (bytes >= 0 ? ` ${size(bytes)}` : "");
  }
  return lane.name && lane.source !== "stalls" ? data.shorts[lane.name[first]] : kind.label;
};

const nameOf = (data, { lane, first }) => {
  if (lane.source === "steps") return data.steps.names[lane.step[first]];
  const kind = data.kinds[lane.kind[first]].label;
  if (!lane.name) return kind;
  const name = data.names[lane.name[first]];
  return lane.source === "stalls" ? `${kind}: ${name}` : name;
};

const lengthOf = (lane, at) => lane.end[at] - lane.start[at];

const linesOfStep = (data, lane, at) => {
  const { where, unlike, complete } = data.steps;
  const step = lane.step[at];
  const isCut = complete[step] ? "" : "cut off: not measured";
  return [`${duration(lengthOf(lane, at))} ${where}`, unlike[step] ? "unlike the others: not measured" : isCut];
};

const linesOfEvent = (data, lane, at) => [
  startOf(data, lane.start[at], stepAt(data, lane.start[at])),
  `lasts ${duration(lengthOf(lane, at))}`,
];

const linesOfStall = (data, lane, at) => {
  const stall = lengthOf(lane, at);
  const [start] = linesOfEvent(data, lane, at);
  if (!lane.drain) return [start, `the host is in the call for ${duration(stall)}`];
  const [drain, own, bubble] = [lane.drain[at], lane.own[at], lane.bubble[at]];
  const parts = [[drain, "for work queued before"], [own, "for its own copy"], [stall - drain - own, "in the call itself"]];
  const waits = parts.filter(([time]) => time > 0).map(([time, what]) => `${duration(time)} ${what}`).join(", ");
  const idle = bubble ? `then the GPU is idle for ${duration(bubble)}` : "";
  return [start, `the host waits ${duration(stall)}: ${waits}`, idle];
};

const exposureOf = (data, lane, at) => {
  if (!lane.exposed?.[at]) return "";
  const exposed = lane.exposed[at] - 1;
  if (exposed === 0) return "overlapped: kernels run during all of it";
  const reason = data.reasons[lane.reason[at] - 1];
  return `exposed for ${duration(exposed)} (${percent(exposed / lengthOf(lane, at))})${reason ? `: ${reason}` : ""}`;
};

const launchOf = (data, lane, at) => {
  const launch = linked(data, lane.launch[at]);
  if (!launch) return `its launch is not ${lane.launch[at] === UNDRAWN ? "drawn by itself" : "in the trace"}`;
  return `launched ${duration(lane.start[at] - launch.lane.start[launch.first])} earlier by ${nameOf(data, launch)}`;
};

const linesOfWork = (data, lane, at) => {
  const length = lengthOf(lane, at);
  const bytes = lane.bytes[at] - 1;
  const moved = bytes < 0 ? "" : `: ${size(bytes)}${length ? ` at ${rate(bytes / length)}` : ""}`;
  return [
    startOf(data, lane.start[at], lane.step[at] - 1),
    `lasts ${duration(length)}${moved}`,
    exposureOf(data, lane, at),
    `${lane.stream} of ${lane.group}`,
    launchOf(data, lane, at),
  ];
};

const linesOfBand = (data, lane, at) => [`lasts ${duration(lengthOf(lane, at))}`];

// By the source of a lane; other sources have linesOfEvent.
const LINES = { steps: linesOfStep, stalls: linesOfStall, overlap: linesOfBand, gpu: linesOfWork };

// The surroundings of an event; of GPU work those of its launch, unless the line that asked for it is known.
const surroundingsOf = (data, lane, at) => {
  const own = lane.around ? data.around[lane.around[at]] : [];
  const launch = lane.launch && linked(data, lane.launch[at]);
  return own.length || !launch ? own : data.around[launch.lane.around[launch.first]];
};

// The text on memory over time; of a block what it rises to.
const textOfMemory = (data, { lane, first, last, start }) => {
  const most = (column) => column.subarray(first, last + 1).reduce((one, other) => Math.max(one, other), 0);
  const reserved = most(lane.reserved) - 1;
  return [
    `${last > first ? "up to " : ""}${size(most(lane.allocated))} allocated`,
    ...(reserved >= 0 ? [`${size(reserved)} reserved`] : []),
    startOf(data, start, stepAt(data, start)),
    "as the host allocates: kernels use it later",
  ];
};

// The text on a rectangle, which may stand for many events: a heading and lines.
const textOfEvent = (data, cell) => {
  const { lane, longest: at, times, count: events, busy } = cell;
  const span = cell.end - cell.start;
  if (lane.source === "memory") return textOfMemory(data, cell);
  if (events > 1 && times) {
    const parts = Object.entries(times).sort((one, other) => other[1] - one[1]);
    const shares = parts.map(([kind, time]) => `${data.kinds[kind].label}: ${percent(time / busy)}, ${duration(time)}`);
    return [`${duration(span)}, too short to be drawn one by one`, ...shares];
  }
  const own = (LINES[lane.source] ?? linesOfEvent)(data, lane, at);
  const name = nameOf(data, { lane, first: at });
  const lines = [...own.filter(Boolean), ...surroundingsOf(data, lane, at)];
  if (events === 1) return [name, ...lines];
  const most = cell.first === cell.last ? ", merged in this page" : `, most time in: ${data.kinds[cell.kind].label}`;
  return [`${counted(events)} events${most}`, `${duration(busy)} in ${duration(span)}`, `the longest: ${name}`, ...lines];
};
