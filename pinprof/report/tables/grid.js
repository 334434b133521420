// The rows of a table: their values in a scope, filter, order, sums and CSV.

const STEPS = 0; // place of a figure's value in the regular steps
const ALL = 1; // place of its value in the whole recording

const readGrids = async (text) => JSON.parse(new TextDecoder().decode(await inflated(text)));

const CELLS = {
  text: String,
  count: (value) => (value >= 100 || Number.isInteger(value) ? counted(Math.round(value)) : threeDigits(value)),
  time: duration,
  bytes: size,
  rate,
  share: percent,
};

const UNITS = { time: "_ns", bytes: "_bytes", rate: "_GB_per_s" };
const FORMULA = /^[=+\-@\t\r]/; // the beginning of a formula of spreadsheets

// The distinct texts, as one text.
const inOne = (texts) => [...new Set(texts.filter(Boolean))].join(", ");

class Grid {
  constructor(data, steps) {
    Object.assign(this, data);
    this.data = data;
    this.steps = steps;
    this.size = data.longest[0].length;
    this.field = new Map(data.fields.map((field) => [field.key, field]));
    this.sort = { key: "total", falls: true };
    const { name, ...others } = data.texts;
    this.words = name.map((one, row) => [one, ...Object.values(others).map((column) => column[row])].join("\n").toLowerCase());
  }

  // Returns the table with each group of rows as one row: their sums, their longest time and their distinct texts.
  gathered(groups) {
    const inGroups = new Set(groups.flat());
    const alone = [...this.longest[0].keys()].filter((row) => !inGroups.has(row));
    const members = [...groups, ...alone.map((row) => [row])];
    const gather = (column, as) => members.map((rows) => as(rows.map((row) => column[row])));
    const forEach = (columns, as) => Object.fromEntries(Object.entries(columns).map(([key, column]) => [key, as(column, key)]));
    const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);
    const most = this.numbers.most[ALL];
    const longest = members.map((rows) => rows.reduce((one, row) => (most[row] > most[one] ? row : one)));
    return new Grid({
      ...this.data,
      texts: forEach(this.texts, (column) => gather(column, inOne)),
      numbers: forEach(this.numbers, (scopes, key) =>
        scopes.map((column) => gather(column, (values) => (this.field.get(key).adds ? sum(values) : Math.max(...values))))),
      seen: forEach(this.seen, (column) => gather(column, (values) => values.flat())),
      stacks: this.stacks.length ? gather(this.stacks, (values) => values.flat()) : [],
      longest: this.longest.map((times) => longest.map((row) => times[row])),
      links: this.links.length ? members.map((rows) => (rows.length > 1 ? "" : this.links[rows[0]])) : [],
    }, this.steps);
  }

  // A figure of a row, undefined if it has none. In the scope of steps, figures that add up are per step.
  value(row, key, scope) {
    if (this.texts[key]) return this.texts[key][row];
    const { ratio, adds } = this.field.get(key) ?? {};
    if (ratio) {
      const [part, of] = ratio.map((one) => (one === "whole" ? this.whole[scope] : this.numbers[one][scope][row]));
      return of ? part / of : undefined;
    }
    const value = this.numbers[key][scope][row] ?? undefined;
    return adds && scope === STEPS && value !== undefined ? value / this.steps : value;
  }

  // The sum of a column over rows, undefined where a sum has no meaning.
  sum(rows, key, scope) {
    const { adds, over_rows: isWhole, ratio } = this.field.get(key);
    if (!(adds && isWhole) && ratio?.[1] !== "whole") return undefined;
    return rows.reduce((sum, row) => sum + (this.value(row, key, scope) ?? 0), 0);
  }

  // The rows in a scope that hold all of the words, sorted.
  rows(scope, words) {
    const rows = [];
    for (let row = 0; row < this.size; row++) {
      if (this.numbers.count[scope][row] && words.every((word) => this.words[row].includes(word))) rows.push(row);
    }
    const { key, falls } = this.sort;
    const values = new Map(rows.map((row) => [row, this.value(row, key, scope)]));
    const order = this.field.get(key).kind === "text"
      ? (one, other) => String(values.get(one)).localeCompare(String(values.get(other)))
      : (one, other) => (values.get(one) ?? -Infinity) - (values.get(other) ?? -Infinity);
    return rows.sort((one, other) => (falls ? -order(one, other) : order(one, other)) || one - other);
  }

  sortBy(key) {
    const isText = this.field.get(key).kind === "text";
    this.sort = { key, falls: this.sort.key === key ? !this.sort.falls : !isText };
  }

  // The fields with a value in some row.
  shown(rows, scope) {
    return this.fields.filter(({ key }) => rows.some((row) => ![undefined, ""].includes(this.value(row, key, scope))));
  }

  csv(rows, scope) {
    const cell = (value) => {
      const text = typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value ?? "");
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const head = this.fields.map(({ title, kind }) => cell(title.replaceAll(" ", "_") + (UNITS[kind] ?? "")));
    const lines = rows.map((row) => this.fields.map(({ key }) => cell(this.value(row, key, scope))).join(","));
    return [head.join(","), ...lines, ""].join("\r\n");
  }
}

// Returns a test of the timeline's events: whether they belong to a row.
const eventsOf = (data, grid, row) => {
  const { name, device, stream, bytes, starts } = grid.seen;
  const codes = name && new Set(data.names.flatMap((one, code) => (one === name[row] ? [code] : [])));
  const times = starts && new Set(starts[row]);
  return (lane, at) =>
    lane.source === grid.source &&
    (lane.count?.[at] ?? 1) === 1 &&
    (!codes || codes.has(lane.name[at])) &&
    (!device || (lane.device === device[row] && lane.stream === stream[row])) &&
    (!bytes || lane.bytes[at] === (bytes[row] ?? -1) + 1) &&
    (!times || times.has(lane.start[at]));
};
