// Shows the tables of a page. Heads sort them, words filter them, and a row leads to its places in the timeline.

const MOST_SHOWN = 300; // rows; the others are counted
const UNDRAWN_ROW = "the timeline does not draw these one by one (too short or nested too deep): it shows where the longest is";
const SCOPES = [["per regular step", STEPS], ["the whole recording", ALL]];

class Tables {
  constructor(root, { steps, grids }) {
    this.root = root;
    this.section = root.closest("section") ?? document;
    this.grids = new Map(grids.map((grid) => [grid.name, new Grid(grid, steps)]));
    this.tabs = [...root.querySelectorAll("[role=tab]")];
    this.sheet = root.querySelector(".sheet");
    this.filter = root.querySelector(".filter");
    this.scope = root.querySelector(".scope");
    for (const [label, scope] of steps ? SCOPES : SCOPES.slice(ALL)) this.scope.append(new Option(label, String(scope)));
    this.gather = root.querySelector(".gather");
    this.searched = "";
    this.steer();
    this.open(this.tabs[0]);
  }

  steer() {
    for (const tab of this.tabs) tab.addEventListener("click", () => this.choose(tab));
    this.root.querySelector("[role=tablist]").addEventListener("keydown", (event) => this.onTabKey(event));
    this.filter.addEventListener("input", () => this.draw());
    this.filter.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.filter.value = "";
      this.draw();
    });
    this.scope.addEventListener("change", () => this.draw());
    this.gather.addEventListener("change", () => this.gatherBy(this.gather.value));
    this.root.querySelector(".save").addEventListener("click", () => this.save());
    this.section.addEventListener("input", ({ target }) => {
      if (!target.matches(".timeline .find")) return;
      this.searched = target.value;
      this.draw();
    });
    this.sheet.addEventListener("click", (event) => this.onClick(event));
  }

  onTabKey(event) {
    const at = this.tabs.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1 }[event.key];
    if (next === undefined || at < 0) return;
    event.preventDefault();
    event.stopPropagation(); // the timeline has these keys, too
    const tab = this.tabs.at(next % this.tabs.length);
    tab.focus();
    this.choose(tab);
  }

  choose(chosen) {
    for (const tab of this.tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
    }
    this.sheet.scrollTo(0, 0);
    this.open(chosen);
  }

  // Opens the table of a tab, and lists the ways to gather its rows.
  open(tab) {
    this.grid = this.grids.get(tab.dataset.grid);
    this.sheet.setAttribute("aria-label", this.grid.title);
    const ways = Object.keys(this.grid.together);
    this.gather.parentElement.hidden = !ways.length;
    this.gather.replaceChildren(new Option("each by itself", ""), ...ways.map((way) => new Option(way)));
    this.draw();
  }

  gatherBy(way) {
    const grid = this.grids.get(this.grid.name);
    this.grid = way ? grid.gathered(grid.together[way]) : grid;
    this.draw();
  }

  get words() {
    return `${this.filter.value} ${this.searched}`.toLowerCase().split(/\s+/).filter(Boolean);
  }

  get chosenScope() {
    return Number(this.scope.value);
  }

  draw() {
    const { grid, chosenScope: scope } = this;
    const rows = grid.rows(scope, this.words);
    this.rows = rows;
    const fields = grid.shown(rows.length ? rows : [...grid.longest[0].keys()], scope);
    const table = newElement("table", "");
    table.append(this.head(fields), this.body(fields, rows, scope), this.foot(fields, rows, scope));
    this.sheet.replaceChildren(table);
    this.root.querySelector(".about").textContent = `${grid.note}.`;
    this.root.querySelector(".save").textContent = `CSV of ${howMany(rows.length, "row")}`;
    this.writeCount(rows, scope);
  }

  writeCount(rows, scope) {
    const all = this.grid.numbers.count[scope].filter(Boolean).length;
    const by = [this.filter.value, this.searched && `the timeline's search for “${this.searched}”`].filter((one) => one.trim());
    const found = by.length ? `${counted(rows.length)} of ${counted(all)} rows, by ${by.join(" and ")}` : "";
    const left = rows.length - MOST_SHOWN;
    const more = left > 0 ? `${counted(left)} more rows are not shown: filter, or save them` : "";
    this.root.querySelector(".rows").textContent = [found, more].filter(Boolean).join("; ");
  }

  head(fields) {
    const row = newElement("tr", "");
    for (const { key, title, kind, meaning } of fields) {
      const cell = newElement("th", kind === "text" ? "" : "count");
      cell.scope = "col";
      const { sort } = this.grid;
      if (sort.key === key) cell.setAttribute("aria-sort", sort.falls ? "descending" : "ascending");
      const button = asButton(title, "", "");
      button.dataset.sort = key;
      if (meaning) button.title = meaning;
      cell.append(button);
      row.append(cell);
    }
    const head = newElement("thead", "");
    head.append(row);
    return head;
  }

  body(fields, rows, scope) {
    const body = newElement("tbody", "");
    const most = Math.max(...rows.map((row) => this.grid.value(row, "total", scope) ?? 0), 1);
    for (const row of rows.slice(0, MOST_SHOWN)) {
      const line = newElement("tr", "");
      line.dataset.row = String(row);
      for (const field of fields) line.append(this.cell(field, row, scope, most));
      body.append(line);
    }
    return body;
  }

  cell({ key, kind }, row, scope, most) {
    const value = this.grid.value(row, key, scope);
    const text = value === undefined ? "-" : CELLS[kind](value);
    const cell = newElement(key === "name" ? "th" : "td", kind === "text" ? `text ${key}` : "count");
    if (key === "name") {
      cell.scope = "row";
      const button = asButton(text.replace(DECORATION, ""), "places", `${text}: show its places in the timeline`);
      button.title = text;
      cell.append(button);
    } else if (key === "most" && value) {
      cell.append(asButton(text, "longest", `${text}: show the longest in the timeline`));
    } else if (key === "line") cell.append(this.place(row, inShort(text)));
    else if (kind === "text") cell.append(newElement("span", "", inShort(text)));
    else cell.textContent = text;
    if (kind === "text" && key !== "name") cell.title = text;
    if (key === "total") cell.style.setProperty("--share", `${(100 * (value ?? 0)) / most}%`);
    return cell;
  }

  // The source line of a row, as a link if there is one, with its call stacks below.
  place(row, text) {
    const link = this.grid.links[row];
    const line = newElement(link ? "a" : "span", link ? "editor" : "", text);
    if (link) line.href = link;
    const stacks = this.grid.stacks[row] ?? [];
    if (!stacks.length) return line;
    const [folded, summary] = [newElement("details", "stacks"), newElement("summary", "")];
    summary.append(line);
    folded.append(summary, ...stacks.map((stack) => {
      const list = newElement("ol", "");
      for (const frame of stack) list.append(newElement("li", "", frame));
      return list;
    }));
    return folded;
  }

  foot(fields, rows, scope) {
    const line = newElement("tr", "");
    fields.forEach(({ key, kind }, at) => {
      const sum = at ? this.grid.sum(rows, key, scope) : undefined;
      const text = at ? (sum === undefined ? "" : CELLS[kind](sum)) : `all ${counted(rows.length)}`;
      const cell = newElement(at ? "td" : "th", kind === "text" ? "" : "count", text);
      if (!at) cell.scope = "row";
      line.append(cell);
    });
    const foot = newElement("tfoot", "");
    foot.append(line);
    return foot;
  }

  onClick(event) {
    const { target } = event;
    const { sort } = target.dataset;
    if (sort) {
      this.grid.sortBy(sort);
      this.draw();
      this.sheet.querySelector(`[data-sort="${sort}"]`).focus();
      return;
    }
    const line = target.closest("tbody tr");
    if (!line || target.closest("a, details") || String(getSelection())) return;
    this.show(Number(line.dataset.row), target.matches(".longest"));
  }

  // Shows the events of a row in the timeline, or the longest of them.
  async show(row, onlyLongest) {
    const root = this.section.querySelector(".timeline");
    if (!root) return;
    const { grid } = this;
    const timeline = await drawOnce(root);
    for (const line of this.sheet.querySelectorAll("tbody tr")) {
      line.classList.toggle("seen", Number(line.dataset.row) === row);
    }
    const isOfRow = eventsOf(timeline.data, grid, row);
    const isDrawn = timeline.data.lanes.some((lane) => {
      for (let at = 0; at < lane.size; at++) if (isOfRow(lane, at)) return true;
      return false;
    });
    await timeline.showEvents(isOfRow);
    if (!isDrawn) this.root.querySelector(".rows").textContent = UNDRAWN_ROW;
    if (onlyLongest || !isDrawn) {
      await timeline.showInstance([grid.source, ...grid.longest.map((times) => times[row])]);
    }
    root.scrollIntoView({ block: "start" });
    timeline.plot.focus({ preventScroll: true });
  }

  save() {
    const link = newElement("a", "");
    link.href = URL.createObjectURL(new Blob([this.grid.csv(this.rows, this.chosenScope)], { type: "text/csv" }));
    link.download = `${this.grid.name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

const FOLDERS = /[^\s(]*\/(?=[^\s/]+\/[^\s/]+)/g; // all of a path but its last two parts

const DECORATION = /^void |\(anonymous namespace\)::|\b(?:at::native|at|c10|std)::/g;

const inShort = (text) => text.replace(FOLDERS, "");

const asButton = (text, name, label) => {
  const button = newElement("button", name, text);
  button.type = "button";
  if (label) button.setAttribute("aria-label", label);
  return button;
};

const drawTables = async (root) => {
  try {
    const tables = new Tables(root, await readGrids(root.querySelector(".packed").textContent));
    root.dataset.drawn = "true";
    return tables;
  } catch (error) {
    root.querySelector(".sheet").textContent = `The tables cannot be shown in this browser: ${error.message}`;
    console.error(error);
    return undefined;
  }
};

const TABLES = new Map(); // by their elements, as promises
const drawTablesOnce = (root) => {
  if (!TABLES.has(root)) TABLES.set(root, drawTables(root));
  return TABLES.get(root);
};

onceNear(document.querySelectorAll(".grids"), drawTablesOnce);
