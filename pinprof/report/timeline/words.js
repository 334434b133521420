// What is said of an event, as lines of plain text; units.py has the same rules for numbers and brings the
// units, sources.py has the same values for the same sentences.

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

const FORMATS = { duration, size, rate, percent, how_many: counted };
const VALUE = /\{(\w+)(?::(\w+))?\}/g;

// Of each line of sentences.json the first alternative all of whose values are known; "" is known and not shown.
const said = (lines, values) =>
  lines.flatMap((alternatives) => {
    const isKnown = (text) => [...text.matchAll(VALUE)].every(([, name]) => values[name] !== undefined);
    const shown = (_, name, format) => (FORMATS[format] ?? String)(values[name]);
    return alternatives.filter(isKnown).slice(0, 1).map((text) => text.replace(VALUE, shown));
  });

const when = (data, time, step) => {
  const { names, start } = data.steps;
  if (!names.length) return { time };
  if (step >= 0) return { into: time - start[step], step: names[step] };
  const nearest = Math.max(firstAbove(start, time) - 1, 0);
  const since = time - start[nearest];
  return { [since >= 0 ? "after" : "before"]: Math.abs(since), nearest: names[nearest] };
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

const ofStep = (data, lane, at) => ({
  range: lane.end[at] - lane.start[at],
  where: data.steps.where,
  unlike: data.steps.unlike[lane.step[at]] ? "" : undefined,
  incomplete: data.steps.complete[lane.step[at]] ? undefined : "",
});

const ofEvent = (data, lane, at) => ({
  ...when(data, lane.start[at], stepAt(data, lane.start[at])),
  length: lane.end[at] - lane.start[at],
});

const ofStall = (data, lane, at) => {
  const { length: stall, ...values } = ofEvent(data, lane, at);
  if (!lane.drain) return { ...values, stall };
  const [drain, own, bubble] = [lane.drain[at], lane.own[at], lane.bubble[at]];
  const parts = Object.entries({ drain, own, rest: stall - drain - own }).filter(([, time]) => time > 0);
  const waited = said(SENTENCES.waited, Object.fromEntries(parts)).join(", ");
  return { ...values, stall, waited, bubble: bubble || undefined };
};

const exposure = (data, lane, at, length) => {
  if (!lane.exposed || !lane.exposed[at]) return {};
  const exposed = lane.exposed[at] - 1;
  if (exposed === 0) return { overlapped: "" };
  return { exposed, share: exposed / length, reason: data.reasons[lane.reason[at] - 1] };
};

const launched = (data, lane, at) => {
  const launch = linked(data, lane.launch[at]);
  if (!launch) return lane.launch[at] === UNDRAWN ? { undrawn: "" } : { unlaunched: "" };
  return { earlier: lane.start[at] - launch.lane.start[launch.first], launcher: nameOf(data, launch) };
};

const ofWork = (data, lane, at) => {
  const length = lane.end[at] - lane.start[at];
  const bytes = lane.bytes[at] ? lane.bytes[at] - 1 : undefined;
  return {
    ...when(data, lane.start[at], lane.step[at] - 1),
    length,
    bytes,
    gbps: length ? bytes / length : undefined,
    ...exposure(data, lane, at, length),
    stream: lane.stream,
    group: lane.group,
    ...launched(data, lane, at),
  };
};

const ofBand = (data, lane, at) => ({ length: lane.end[at] - lane.start[at] });

const VALUES = { of_step: ofStep, of_event: ofEvent, of_stall: ofStall, of_work: ofWork, of_band: ofBand }; // as sources.py names them

// What is around a call: of GPU work its launch, unless the line that asked for it is known.
const around = (data, lane, at) => {
  const own = lane.around ? data.around[lane.around[at]] : [];
  const launch = lane.launch && linked(data, lane.launch[at]);
  return own.length || !launch ? own : data.around[launch.lane.around[launch.first]];
};

// What is said of a rectangle, which may stand for many events: a heading and lines below it.
const wordsOf = (data, cell) => {
  const { lane, longest: at, times, count: events, busy } = cell;
  const span = cell.end - cell.start;
  if (events > 1 && times) {
    const parts = Object.entries(times).sort((one, other) => other[1] - one[1]);
    const told = parts.map(([kind, time]) => `${data.kinds[kind].label}: ${percent(time / busy)}, ${duration(time)}`);
    return [`${duration(span)}, too short to be drawn one by one`, ...told];
  }
  const name = nameOf(data, { lane, first: at });
  const most = cell.first === cell.last ? undefined : data.kinds[cell.kind].label;
  const heading = events > 1 ? { events, most, busy, span, longest: name } : { name };
  const values = VALUES[lane.values](data, lane, at);
  return [...said(SENTENCES.lines, { ...heading, ...values }), ...around(data, lane, at)];
};
