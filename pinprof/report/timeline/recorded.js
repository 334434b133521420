// What the trace's file says of an event beside its times, as arguments.py packs it: lines, and all that is left.

const NOTHING_RECORDED = { lines: [], others: [] };

// The columns of a lane that hold it, read when first asked for.
const recordedColumns = (data, lane) => {
  lane.recorded ??= {
    set: lane.later("set"),
    own: data.args.own.map((name, number) => [name, lane.later(`own ${number}`)])
      .filter(([, column]) => column)
      .map(([name, column]) => [name, summed(column)]),
  };
  return lane.recorded;
};

const ownOf = (data, lane, at) => {
  const { args } = data;
  const { set, own } = recordedColumns(data, lane);
  const [lines, others] = args.sets[set?.[at] ?? 0].map((texts) => texts.map((text) => args.texts[text]));
  const numbers = own.filter(([, column]) => column[at]).map(([name, column]) => [name, String(column[at] - 1)]);
  const bytes = lane.bytes?.[at] ? [["bytes", counted(lane.bytes[at] - 1)]] : [];
  return { lines, others: [...bytes, ...others, ...numbers] };
};

const WITH_ARGS = new Set(["annotations", "ops", "frames", "calls", "gpu"]);

// The op in which a call was made, perhaps by frames and annotations in it.
const opAround = (data, call) => {
  let found = parentOf(data, call.lane, call.first);
  while (found && found.lane.source !== "ops") found = parentOf(data, found.lane, found.at);
  return found;
};

// Of GPU work the inputs of the op that asked for it, too.
const recordedOf = (data, lane, at) => {
  if (!WITH_ARGS.has(lane.source)) return NOTHING_RECORDED;
  if (data.args.why) return { lines: [`its args are not in this page: ${data.args.why}`], others: [] };
  const { lines, others } = ownOf(data, lane, at);
  const launch = lane.launch && linked(data, lane.launch[at]);
  const asker = launch && opAround(data, launch);
  if (!asker || (asker.lane.count?.[asker.at] ?? 1) > 1) return { lines, others };
  const inputs = ownOf(data, asker.lane, asker.at).lines.filter((line) => line.startsWith("inputs: "));
  const name = labelOf(data, { lane: asker.lane, first: asker.at, last: asker.at });
  return { lines: [...lines, ...inputs.map((line) => line.replace("inputs:", `inputs of ${name}:`))], others };
};

// A list of the other args, folded until it was opened once.
const othersOf = (timeline, others) => {
  if (!others.length) return [];
  const list = made("dl", "");
  for (const [name, value] of others) {
    const pair = made("div", "");
    pair.append(made("dt", "", name), " ", made("dd", "", value));
    list.append(pair);
  }
  const folded = made("details", "args");
  folded.open = Boolean(timeline.showsArgs);
  folded.addEventListener("toggle", () => {
    timeline.showsArgs = folded.open;
  });
  folded.append(made("summary", "", `${counted(others.length)} other arg${others.length === 1 ? "" : "s"}`), list);
  return [folded];
};
