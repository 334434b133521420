// What is said of an event, as lines of plain text; units.py has the same rules for numbers.

const TIMES = [[1e9, "s", 0.9995], [1e6, "ms", 0.9995], [1e3, "µs", 0.9995], [1, "ns", 1]];
const SIZES = [[2 ** 40, "TiB", 1], [2 ** 30, "GiB", 1], [2 ** 20, "MiB", 1], [2 ** 10, "KiB", 1], [1, "B", 1]];

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

const percent = (share) => {
  const whole = Math.round(share * 100);
  if (whole === 0 && share > 0) return "<1 %";
  return whole === 100 && share < 1 ? ">99 %" : `${whole} %`;
};

const stepAt = (data, time) => {
  const step = firstAbove(data.steps.start, time) - 1;
  return step >= 0 && time < data.steps.end[step] ? step : -1;
};

const whenWords = (data, time, step) => {
  const { names, start } = data.steps;
  if (step >= 0) return `starts ${duration(time - start[step])} into ${names[step]}`;
  if (!names.length) return `starts ${duration(time)} into the trace`;
  const nearest = Math.max(firstAbove(start, time) - 1, 0);
  const since = time - start[nearest];
  return `starts ${duration(Math.abs(since))} ${since >= 0 ? "after" : "before"} the start of ${names[nearest]}, in no step`;
};

// A short name for a rectangle.
const labelOf = (data, { lane, first, last }, count = 1) => {
  const kind = data.kinds[lane.kind[first]];
  if (count > 1 || last > first || (lane.count?.[first] ?? 1) > 1) return `${counted(count)} events`;
  if (lane.source === "steps") return data.steps.names[lane.step[first]];
  if (lane.source === "gpu" && kind.isCopy) {
    const bytes = lane.bytes[first] - 1;
    return kind.label.replace("copy ", "") + (bytes >= 0 ? ` ${size(bytes)}` : "");
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

const stepWords = (data, lane, at) => {
  const step = lane.step[at];
  const lines = [`${duration(lane.end[at] - lane.start[at])} ${data.steps.where}`];
  return data.steps.complete[step] ? lines : [...lines, "cut off: not measured"];
};

const eventWords = (data, lane, at) => {
  const start = lane.start[at];
  const lines = [whenWords(data, start, stepAt(data, start)), `lasts ${duration(lane.end[at] - start)}`];
  return lane.around ? [...lines, ...data.around[lane.around[at]]] : lines;
};

const stallWords = (data, lane, at) => {
  const start = lane.start[at];
  const length = lane.end[at] - start;
  const lines = [whenWords(data, start, stepAt(data, start))];
  if (!lane.drain) return [...lines, `the host is in the call for ${duration(length)}`, ...data.around[lane.around[at]]];
  const parts = [
    [lane.drain[at], "for work queued before"],
    [lane.own[at], "for its own copy"],
    [length - lane.drain[at] - lane.own[at], "in the call itself"],
  ];
  const waited = parts.filter(([time]) => time > 0).map(([time, what]) => `${duration(time)} ${what}`);
  lines.push(`the host waits ${duration(length)}: ${waited.join(", ")}`);
  if (lane.bubble[at]) lines.push(`then the GPU is idle for ${duration(lane.bubble[at])}`);
  return [...lines, ...data.around[lane.around[at]]];
};

const exposureWords = (data, lane, at, length) => {
  if (!lane.exposed || !lane.exposed[at]) return [];
  const exposed = lane.exposed[at] - 1;
  if (exposed === 0) return ["overlapped: kernels run beside all of it"];
  const reason = lane.reason[at] ? `: ${data.reasons[lane.reason[at] - 1]}` : "";
  return [`exposed for ${duration(exposed)} (${length ? percent(exposed / length) : "all"})${reason}`];
};

const launchWords = (data, lane, at) => {
  const around = data.around[lane.around[at]];
  const launch = linked(data, lane.launch[at]);
  if (!launch) {
    return [lane.launch[at] === UNDRAWN ? "its launch is not drawn by itself" : "its launch is not in the trace", ...around];
  }
  const earlier = lane.start[at] - launch.lane.start[launch.first];
  const said = around.length ? around : data.around[launch.lane.around[launch.first]];
  return [`launched ${duration(earlier)} earlier by ${nameOf(data, launch)}`, ...said];
};

const gpuWords = (data, lane, at) => {
  const length = lane.end[at] - lane.start[at];
  const bytes = lane.bytes[at] - 1;
  const amount = bytes < 0 ? "" : `: ${size(bytes)}${length ? ` at ${rate(bytes / length)}` : ""}`;
  return [
    whenWords(data, lane.start[at], lane.step[at] - 1),
    `lasts ${duration(length)}${amount}`,
    ...exposureWords(data, lane, at, length),
    `${lane.stream} of ${lane.group}`,
    ...launchWords(data, lane, at),
  ];
};

const WORDS = { steps: stepWords, stalls: stallWords, gpu: gpuWords };

const factsOf = (data, { lane, first }) => {
  if (lane.source === "overlap") return [`lasts ${duration(lane.end[first] - lane.start[first])}`];
  return (WORDS[lane.source] ?? eventWords)(data, lane, first);
};

// What is said of a rectangle, which may stand for many events: a heading and lines below it.
const wordsOf = (data, cell) => {
  if (cell.count === 1) return [nameOf(data, cell), ...factsOf(data, cell)];
  const { lane, longest, times } = cell;
  if (times) {
    const parts = Object.entries(times).sort((one, other) => other[1] - one[1]);
    const span = `${duration(cell.end - cell.start)}, too short to be drawn one by one`;
    return [span, ...parts.map(([kind, time]) => `${data.kinds[kind].label}: ${percent(time / cell.busy)}, ${duration(time)}`)];
  }
  const event = { lane, first: longest, last: longest };
  const how = cell.first === cell.last ? "merged in this page" : `most time in: ${data.kinds[cell.kind].label}`;
  const head = [
    `${counted(cell.count)} events, ${how}`,
    `${duration(cell.busy)} in ${duration(cell.end - cell.start)}`,
  ];
  return [...head, `the longest: ${nameOf(data, event)}`, ...factsOf(data, event)];
};
