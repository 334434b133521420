// Reads the typed columns that payload.py packs, and finds events in them.

const inflated = async (text) => {
  const packed = atob(text.trim());
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

const WIDTHS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: Float64Array };

const unsigned = (value) => (value % 2 ? -(value + 1) / 2 : value / 2);

const summed = (differences) => {
  const sums = new Float64Array(differences.length);
  for (let at = 0, sum = 0; at < sums.length; at++) sums[at] = sum += unsigned(differences[at]);
  return sums;
};

// A column's bytes lie by significance, the lowest of all values first; a width of 0 is one value for all.
const readColumn = (bytes, [offset, width, count, isSummed]) => {
  if (isSummed) return summed(readColumn(bytes, [offset, width, count]));
  if (width === 0) return new Float64Array(count).fill(offset);
  const values = new WIDTHS[width](count);
  const own = new Uint8Array(values.buffer);
  for (let plane = 0; plane < width; plane++) {
    const from = offset + plane * count;
    for (let at = 0; at < count; at++) own[at * width + plane] = bytes[from + at];
  }
  return values;
};

// Starts and ends in ns, from the gap of each event to the one before and its length.
const readTimes = (gap, length) => {
  const start = new Float64Array(gap.length);
  const end = new Float64Array(gap.length);
  let time = 0;
  for (let at = 0; at < gap.length; at++) {
    start[at] = time += unsigned(gap[at]);
    end[at] = time += length[at];
  }
  return { start, end };
};

const MEASURES = new Set(["overlap", "memory"]); // sources of lanes that show a measure over time, not events

const readLane = (bytes, lane, base) => {
  const columns = {};
  for (const [name, column] of Object.entries(lane.columns)) columns[name] = readColumn(bytes, column);
  const { gap, length, ...others } = columns;
  const named = Object.entries(others).filter(([name]) => name.startsWith("share "));
  if (named.length) others.shares = named.map(([name, column]) => [Number(name.slice("share ".length)), column]);
  const isPlain = others.kind.every((kind) => kind === others.kind[0]);
  return { ...lane, ...others, ...readTimes(gap, length), base, size: gap.length, isPlain };
};

// The header that payload.py writes, with the columns of its lanes.
const readTimeline = async (text) => {
  const block = await inflated(text);
  const size = new DataView(block.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(block.subarray(4, 4 + size)));
  const bytes = block.subarray(4 + size);
  let base = 0;
  const lanes = header.lanes.map((lane) => {
    const read = readLane(bytes, lane, base);
    base += read.size;
    return read;
  });
  return { ...header, lanes };
};

// The first place in a sorted column whose value is greater than the given one.
const firstAbove = (column, value) => {
  let from = 0;
  let to = column.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (column[middle] > value) to = middle;
    else from = middle + 1;
  }
  return from;
};

// A link is ABSENT, UNDRAWN, or FIRST plus the event's number, counted over all lanes.
const linked = (data, link) => {
  const number = link - FIRST;
  if (number < 0) return undefined;
  const lane = data.lanes.find((one) => number >= one.base && number < one.base + one.size);
  return lane && { lane, first: number - lane.base, last: number - lane.base };
};

// The event with these times in the lanes of a source.
const eventAt = (data, source, start, end) => {
  for (const lane of data.lanes) {
    if (lane.source !== source) continue;
    for (let at = firstAbove(lane.start, start) - 1; at >= 0 && lane.start[at] === start; at--) {
      if (lane.end[at] === end) return { lane, first: at, last: at };
    }
  }
  return undefined;
};

// The rectangle at a time in the lanes of a source, perhaps a block of merged events.
const blockAt = (data, source, time) => {
  for (const lane of data.lanes) {
    const at = firstAbove(lane.start, time) - 1;
    if (lane.source === source && at >= 0 && lane.end[at] > time) return { lane, first: at, last: at };
  }
  return undefined;
};
