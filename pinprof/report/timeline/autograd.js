// Links forward and backward ops as torch does (torch/csrc/autograd/profiler_kineto.cpp). A forward op has the number
// that its thread gives to the next node of the graph. A backward op has the number of its node, and the thread that
// made the node, in autograd's own numbering of threads.

const NODE_NUMBER = "Sequence number";
const FORWARD_THREAD = "Fwd thread id"; // 0 of forward ops

const addTo = (map, key, value) => {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
};

// Calls visit(lane, at, node, thread) for each op with a number.
const visitNodes = (data, visit) => {
  const threads = data.args.sets.map(([, others]) => {
    const pair = others.map((text) => data.args.texts[text]).find(([key]) => key === FORWARD_THREAD);
    return pair ? Number(pair[1]) : undefined;
  });
  for (const lane of data.lanes.filter(({ source }) => source === "ops")) {
    const { set, own } = recordedColumns(data, lane);
    const nodes = own.find(([name]) => name === NODE_NUMBER)?.[1];
    if (!nodes || !set) continue;
    for (let at = 0; at < lane.size; at++) {
      if (nodes[at] && threads[set[at]] !== undefined) visit(lane, at, nodes[at] - 1, threads[set[at]]);
    }
  }
};

// The thread of the lanes that made most nodes of one of autograd's threads.
const makerOf = (made, backward) => {
  const counts = new Map();
  for (const [thread, nodes] of made) {
    let count = 0;
    for (const node of backward.keys()) if (nodes.has(node)) count += 1;
    counts.set(thread, count);
  }
  return [...counts].reduce((one, other) => (other[1] > one[1] ? other : one), [undefined, 0])[0];
};

// Pairs of a forward op and the ops of its backward, the outermost first, sorted by start; made on first use.
const autogradPairs = (data) => {
  if (data.autogradPairs) return data.autogradPairs;
  const made = new Map(); // by thread and number, the last op before the node: that one made it
  const backward = new Map(); // by autograd's thread and number
  if (!data.args.why) {
    visitNodes(data, (lane, at, node, thread) => {
      const op = { lane, at };
      if (thread > 0) {
        if (!backward.has(thread)) backward.set(thread, new Map());
        addTo(backward.get(thread), node, op);
        return;
      }
      if (!made.has(lane.thread)) made.set(lane.thread, new Map());
      const earlier = made.get(lane.thread).get(node);
      if (!earlier || lane.start[at] >= earlier.lane.start[earlier.at]) made.get(lane.thread).set(node, op);
    });
  }
  const startOfOp = ({ lane, at }) => lane.start[at];
  const pairs = [];
  for (const nodes of backward.values()) {
    const forward = made.get(makerOf(made, nodes));
    for (const [node, ops] of nodes) {
      const maker = forward?.get(node);
      ops.sort((one, other) => startOfOp(one) - startOfOp(other));
      if (maker && startOfOp(maker) <= startOfOp(ops[0])) pairs.push({ forward: maker, backward: ops[0], ops });
    }
  }
  data.autogradPairs = pairs.sort((one, other) => startOfOp(one.forward) - startOfOp(other.forward));
  return data.autogradPairs;
};

const isSame = (one, lane, at) => one.lane === lane && one.at === at;
const isBackward = ({ ops }, lane, at) => ops.some((op) => isSame(op, lane, at));

// The forward op of a backward op, or of an event within one.
const forwardOf = (data, lane, at) => {
  for (let one = { lane, at }; one; one = parentOf(data, one.lane, one.at)) {
    const pair = autogradPairs(data).find((pair) => isBackward(pair, one.lane, one.at));
    if (pair) return pair.forward;
  }
  return undefined;
};

// The backward ops of all forward ops within an event, in the order of forward.
const backwardOf = (data, lane, at) => {
  const pairs = autogradPairs(data).filter(({ forward }) => {
    const begin = forward.lane.start[forward.at];
    return forward.lane.thread === lane.thread && begin >= lane.start[at] && forward.lane.end[forward.at] <= lane.end[at];
  });
  return pairs.map(({ backward }) => backward);
};

// The op that autograd links with an op, as { other, isForward, what }, if there is one.
const autogradLink = (data, lane, at) => {
  const pairs = lane.source === "ops" ? autogradPairs(data) : [];
  const pair = pairs.find((pair) => isSame(pair.forward, lane, at) || isBackward(pair, lane, at));
  if (!pair) return undefined;
  return isSame(pair.forward, lane, at)
    ? { other: pair.backward, isForward: true, what: "its backward" }
    : { other: pair.forward, isForward: false, what: "its forward" };
};
