// Related events: parents and children, launches and their work, the work that waits await, and neighbours.

const NUMBERS = 2 ** 24; // more than the events of a page

const lanesOfThread = (data, lane) => data.lanes.filter((one) => one.isNested && one.thread === lane.thread);

// The shortest event of the thread around this one.
const parentOf = (data, lane, at) => {
  const [start, end] = [lane.start[at], lane.end[at]];
  let parent;
  let isBelow = false;
  for (const one of lanesOfThread(data, lane)) {
    if (one === lane) {
      isBelow = true;
      continue;
    }
    const place = firstAbove(one.start, start) - 1;
    if (place < 0 || one.end[place] < end) continue;
    const length = one.end[place] - one.start[place];
    if (length === end - start && isBelow) continue; // of equal ones the upper one is around the other
    if (!parent || length <= parent.lane.end[parent.at] - parent.lane.start[parent.at]) parent = { lane: one, at: place };
  }
  return parent;
};

// The events of a lane within a time, as places from and to.
const within = (lane, start, end) => {
  const from = firstFrom(lane.start, start, 0, lane.size);
  let to = firstFrom(lane.start, end, from, lane.size);
  while (to > from && lane.end[to - 1] > end) to -= 1;
  return [lane.size && lane.start[from] >= start ? from : Math.min(from + 1, to), to];
};

// The children of an event, at most `most`.
const childrenOf = (data, lane, at, most) => {
  const children = [];
  for (const one of lanesOfThread(data, lane)) {
    if (one === lane) continue;
    const [from, to] = within(one, lane.start[at], lane.end[at]);
    for (let place = from; place < to && children.length < most; place++) {
      const parent = parentOf(data, one, place);
      if (parent?.lane === lane && parent.at === at) children.push({ lane: one, at: place });
    }
  }
  return children.sort((one, other) => one.lane.start[one.at] - other.lane.start[other.at]);
};

// GPU work by the number of its launch, sorted; made on first use.
const launchedBy = (data) => {
  if (data.launchedBy) return data.launchedBy;
  const lanes = data.lanes.filter((lane) => lane.launch);
  const keys = new Float64Array(lanes.reduce((sum, lane) => sum + lane.size, 0));
  let used = 0;
  for (const lane of lanes) {
    for (let at = 0; at < lane.size; at++) {
      if (lane.launch[at] > UNDRAWN) keys[used++] = (lane.launch[at] - FIRST) * NUMBERS + lane.base + at;
    }
  }
  data.launchedBy = keys.subarray(0, used).sort();
  return data.launchedBy;
};

// The GPU work that the event's thread launched during the event: count, time, all of it and the first.
const workOf = (data, lane, at, most) => {
  const keys = launchedBy(data);
  const work = { count: 0, time: 0, first: [], all: [] };
  for (const calls of data.lanes) {
    if (calls.source !== "calls" || calls.thread !== lane.thread) continue;
    const [from, to] = calls === lane ? [at, at + 1] : within(calls, lane.start[at], lane.end[at]);
    if (to <= from) continue;
    const end = firstFrom(keys, (calls.base + to) * NUMBERS, 0, keys.length);
    for (let one = firstAbove(keys, (calls.base + from) * NUMBERS - 1); one < end; one++) {
      const { lane: stream, first: place } = linked(data, (keys[one] % NUMBERS) + FIRST);
      work.count += 1;
      work.time += stream.end[place] - stream.start[place];
      if (work.first.length < most) work.first.push({ lane: stream, at: place });
      work.all.push({ lane: stream, at: place });
    }
  }
  return work;
};

// Count and time of all events with the name and the source of this one.
const namesakes = (data, lane, at) => {
  const [name, sums] = [lane.name?.[at], { count: 0, time: 0 }];
  for (const one of data.lanes) {
    if (one.source !== lane.source || !one.name || name === undefined) continue;
    for (let place = 0; place < one.size; place++) {
      if (one.name[place] !== name || (one.count?.[place] ?? 1) > 1) continue;
      sums.count += 1;
      sums.time += one.end[place] - one.start[place];
    }
  }
  return sums;
};

// The relations of an event: [{ what, events, count, time, all }].
const relationsOf = (data, lane, at) => {
  const MOST = 12;
  const relations = [];
  const add = (what, events, more = {}) => {
    const known = events.filter(Boolean).map((one) => ({ lane: one.lane, at: one.at ?? one.first }));
    if (known.length) relations.push({ what, events: known, count: known.length, ...more });
  };
  const launch = lane.launch && linked(data, lane.launch[at]);
  if (launch) {
    add("launched by", [launch]);
    add("asked for by", [parentOf(data, launch.lane, launch.first)]);
  }
  if (lane.source === "stalls") {
    add("waits for", [lane.awaited && linked(data, lane.awaited[at])]);
    const call = eventAt(data, "calls", lane.start[at], lane.end[at]);
    add("is the call", [call]);
    add("asked for by", [call && parentOf(data, call.lane, call.first)]);
  }
  if (lane.isNested) {
    add("is in", [parentOf(data, lane, at)]);
    add("holds", childrenOf(data, lane, at, MOST));
    if (lane.source === "calls") add("is a wait", [eventAt(data, "stalls", lane.start[at], lane.end[at])]);
    const work = workOf(data, lane, at, MOST);
    add("launches", work.first, { count: work.count, time: work.time, all: work.all });
  }
  const neighbourBy = (by) => (at + by >= 0 && at + by < lane.size ? { lane, at: at + by } : undefined);
  add("before it", [neighbourBy(-1)]);
  add("after it", [neighbourBy(1)]);
  return relations;
};
