// The details of an event: its args in the trace's file, as arguments.py packs them, and related events as buttons.

const NOTHING_RECORDED = { lines: [], others: [] };

// The columns of a lane with args, read on first use.
const recordedColumns = (data, lane) => {
  lane.recorded ??= {
    set: lane.later("set"),
    own: data.args.own.map((name, number) => [name, lane.later(`own ${number}`)])
      .filter(([, column]) => column),
  };
  return lane.recorded;
};

const argsOfEvent = (data, lane, at) => {
  const { args } = data;
  const { set, own } = recordedColumns(data, lane);
  const [lines, others] = args.sets[set?.[at] ?? 0].map((texts) => texts.map((text) => args.texts[text]));
  const numbers = own.filter(([, column]) => column[at]).map(([name, column]) => [name, String(column[at] - 1)]);
  const bytes = lane.bytes?.[at] ? [["bytes", counted(lane.bytes[at] - 1)]] : [];
  return { lines, others: [...bytes, ...others, ...numbers] };
};

// The innermost op around a call.
const opAround = (data, call) => {
  let parent = parentOf(data, call.lane, call.first);
  while (parent && parent.lane.source !== "ops") parent = parentOf(data, parent.lane, parent.at);
  return parent;
};

// The args of an event, and of GPU work also the inputs of the op that asked for it.
const argsWithInputs = (data, lane, at) => {
  if (!lane.hasArgs) return NOTHING_RECORDED;
  if (data.args.why) return { lines: [`its args are not in this page: ${data.args.why}`], others: [] };
  const { lines, others } = argsOfEvent(data, lane, at);
  const launch = lane.launch && linked(data, lane.launch[at]);
  const asker = launch && opAround(data, launch);
  if (!asker || (asker.lane.count?.[asker.at] ?? 1) > 1) return { lines, others };
  const inputs = argsOfEvent(data, asker.lane, asker.at).lines.filter((line) => line.startsWith(INPUTS));
  const name = labelOf(data, { lane: asker.lane, first: asker.at, last: asker.at });
  return { lines: [...lines, ...inputs.map((line) => `${INPUTS} of ${name}${line.slice(INPUTS.length)}`)], others };
};

// A list of the other args, folded until somebody opens one.
const foldedArgs = (timeline, others) => {
  if (!others.length) return [];
  const list = newElement("dl", "");
  for (const [name, value] of others) {
    const pair = newElement("div", "");
    pair.append(newElement("dt", "", name), " ", newElement("dd", "", value));
    list.append(pair);
  }
  const folded = newElement("details", "args");
  folded.open = Boolean(timeline.showsArgs);
  folded.addEventListener("toggle", () => {
    timeline.showsArgs = folded.open;
  });
  folded.append(newElement("summary", "", `${counted(others.length)} other arg${others.length === 1 ? "" : "s"}`), list);
  return [folded];
};

const SHOWN = 12; // related events, each with its button

const eventButton = (timeline, { lane, at }) => {
  const length = lane.end[at] - lane.start[at];
  const name = labelOf(timeline.data, { lane, first: at, last: at }, lane.count?.[at] ?? 1);
  const button = newButton(`${name} ${duration(length)}`, () => timeline.goTo(lane, at), "event");
  button.title = nameOf(timeline.data, { lane, first: at });
  return button;
};

const relationLine = (timeline, { what, events, count, time, all }) => {
  const line = newElement("li", "");
  const sum = count > 1 ? ` ${counted(count)}${time ? `, ${duration(time)}` : ""}` : "";
  line.append(newElement("span", "relation", `${what}${sum}: `));
  line.append(...events.slice(0, SHOWN).map((event) => eventButton(timeline, event)));
  if (count > 1 && all) line.append(newButton("show all", () => timeline.showEvents(all)));
  else if (count > SHOWN) line.append(newElement("span", "", " …"));
  return line;
};

const namesakesLine = (timeline, lane, at) => {
  const { count, time } = namesakes(timeline.data, lane, at);
  if (count < 2) return [];
  const line = newElement("li", "");
  const name = lane.name[at];
  const isOne = (one, place) => one.source === lane.source && one.name?.[place] === name;
  line.append(
    newElement("span", "relation", `${counted(count)} of this name, ${duration(time)} in all: `),
    newButton("show all", () => timeline.finder.light(isOne)),
  );
  return [line];
};

// An element with the details of a cell; `what` is its part in a finding.
const detailsOf = (timeline, cell, what = "") => {
  const { data } = timeline;
  const [heading, ...lines] = textOfEvent(data, cell);
  const recorded = cell.count === 1 ? argsWithInputs(data, cell.lane, cell.first) : NOTHING_RECORDED;
  const item = asParagraphs([what ? `${what}: ${heading}` : heading, ...lines, ...recorded.lines]);
  const list = newElement("ul", "related");
  const { lane, first: at } = cell;
  const zoom = newButton("zoom to it", () => timeline.show(widenedBy([cell.start, cell.end], AROUND)));
  const line = newElement("li", "");
  line.append(zoom);
  if (cell.count === 1 && !MEASURES.has(lane.source)) {
    list.append(...relationsOf(data, lane, at).map((relation) => relationLine(timeline, relation)));
    if (lane.name) list.append(...namesakesLine(timeline, lane, at));
  }
  list.append(line);
  item.append(list, ...foldedArgs(timeline, recorded.others));
  return item;
};
