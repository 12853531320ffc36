"use strict";
// Adds sorting, a filter, exact values on hover and a CSV file to tables.

const ABSENT = "\u2013";
const FIRST = 200; // rows of a longer table that are laid out until all are asked for: sorting then answers at once
const collator = new Intl.Collator("en", { numeric: true });

/** The value behind a number's text; a number that its text says exactly carries no other. */
function exact(place) {
  return place.dataset.v ?? (place.textContent === ABSENT ? "" : place.textContent.replaceAll(",", ""));
}

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

class SortableTable {
  constructor(table) {
    this.name = table.id.replace(/^table-/, "");
    this.body = table.tBodies[0];
    this.frame = table.closest(".scroll");
    this.heads = Array.from(table.tHead.rows[table.tHead.rows.length - 1].cells);
    this.rows = Array.from(this.body.rows);
    this.words = [];
    this.limit = this.rows.length > 2 * FIRST ? FIRST : Infinity;
    this.heads.forEach((head, column) => this.addSorting(head, column));
    if (this.rows.length > 5) this.addTools();
    if (this.limit < Infinity) this.addMore();
    table.addEventListener("mouseover", (event) => this.explain(event.target.closest("td[data-v]")));
    this.show();
  }

  numeric(column) {
    return this.heads[column].classList.contains("number");
  }

  addSorting(head, column) {
    const button = element("button", { type: "button" }, ...head.childNodes);
    button.addEventListener("click", () => this.sort(column));
    head.append(button);
    head.setAttribute("aria-sort", "none");
  }

  /** Sort by a column, the other way round at the second click; absent values stay last either way. */
  sort(column) {
    const direction = this.heads[column].getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const keyed = this.rows.map((row) => {
      const place = row.cells[column];
      const key = this.numeric(column) || place.dataset.v ? Number(exact(place)) : place.textContent;
      return { row, key, absent: place.textContent === ABSENT };
    });
    const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b));
    keyed.sort((a, b) => a.absent - b.absent || (a.absent ? 0 : direction * order(a.key, b.key)));
    this.rows = keyed.map(({ row }) => row);
    for (const head of this.heads) head.setAttribute("aria-sort", "none");
    this.heads[column].setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    this.show();
  }

  /** The rows that hold every word of the filter. */
  matching() {
    if (!this.words.length) return this.rows;
    return this.rows.filter((row) => {
      const text = row.textContent.toLowerCase();
      return this.words.every((word) => text.includes(word));
    });
  }

  show() {
    const matching = this.matching();
    this.body.replaceChildren(...matching.slice(0, this.limit));
    if (this.count) this.count.textContent = this.words.length ? `${matching.length} of ${this.rows.length} rows` : "";
  }

  addTools() {
    const input = element("input", { type: "search" });
    input.addEventListener("input", () => {
      this.words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.show();
    });
    const save = element("button", { type: "button" }, "Save as CSV");
    save.addEventListener("click", () => this.save());
    this.count = element("output", {});
    this.frame.before(
      element("div", { className: "tools" }, element("label", {}, "Filter rows ", input), save, this.count),
    );
  }

  addMore() {
    const button = element("button", { type: "button" }, `Show all ${this.rows.length.toLocaleString("en")} rows`);
    const all = () => {
      this.limit = Infinity;
      button.remove();
      this.show();
    };
    button.addEventListener("click", all);
    addEventListener("beforeprint", all);
    this.frame.after(element("p", { className: "tools" }, button));
  }

  explain(place) {
    if (place && !place.title) place.title = `${place.dataset.v} ${this.heads[place.cellIndex].dataset.unit ?? ""}`.trim();
  }

  save() {
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const titles = this.heads.map((head) => head.textContent + (head.dataset.unit ? ` [${head.dataset.unit}]` : ""));
    const values = (row) => Array.from(row.cells, (place, i) => (this.numeric(i) ? exact(place) : place.textContent));
    const lines = [titles, ...this.matching().map(values)].map((line) => line.map(quoted).join(","));
    const url = URL.createObjectURL(new Blob([lines.join("\r\n"), "\r\n"], { type: "text/csv" }));
    element("a", { href: url, download: `${this.name}.csv` }).click();
    URL.revokeObjectURL(url);
  }
}

for (const table of document.querySelectorAll("table.sortable")) new SortableTable(table);

// What is folded away on the screen stands open on paper.
let opened = [];
addEventListener("beforeprint", () => {
  opened = Array.from(document.querySelectorAll("details:not([open])"));
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});
