// An order of summation as an icicle: the result on top, below each sum the parts that it adds.
// Which cells a window shows is the kernel's to say; here they are drawn, and moved about in.

const AXIS = 62; // room for the levels, at the left
const HIGH = 400; // of all rows together, about
const LETTER = 7.3; // width of a letter of a cell, about
const SIDES = ["left", "right"];

/** One order: where it stands, and the cells last sent for it. */
class Pane {
  constructor(view, side) {
    this.view = view;
    this.side = side;
    this.back = []; // places come from
    this.kept = new Map(); // windows that the kernel has sent
    this.focus = 0;
    this.id = `wb-${Math.random().toString(36).slice(2)}`;
    this.title = make("div", { class: "wb-title" });
    this.crumbs = make("ol");
    this.svg = draw("svg", { role: "none", width: "100%" });
    this.picture = make("div", {
      class: "wb-picture",
      role: "tree",
      tabindex: "0",
      onkeydown: (event) => this.key(event),
      onfocus: () => this.look(this.focus),
      onblur: () => this.ring(),
      onclick: (event) => this.clicked(event),
      onmousemove: (event) => this.hover(event),
      onmouseleave: () => view.tell(this, this.focus),
    });
    this.picture.append(this.svg);
    this.axis = make("div", { class: "wb-places", "aria-hidden": "true" });
    this.element = make(
      "section",
      { class: "wb-pane" },
      this.title,
      make("nav", { class: "wb-crumbs" }, this.crumbs),
      this.picture,
      this.axis,
    );
  }

  get order() {
    return this.view.model.get("orders")[this.side];
  }

  /** Begin with what came with the widget. */
  start(keep) {
    const [plain, folded] = this.view.model.get("views")[this.side];
    this.kept.clear();
    for (const shown of [plain, folded]) this.kept.set(this.keyOf(shown.place, shown.folded), shown);
    const first = this.view.folded ? folded : plain;
    const name = this.order.label || (this.view.panes?.length > 1 ? SIDES[this.side] : "");
    const facts = `${number(this.order.n)} terms · height ${number(this.order.height)}`;
    this.title.replaceChildren(
      make("strong", {}, name || "Order of summation"),
      ` ${facts} · order ${this.order.hash.slice(0, 6)}`,
    );
    this.picture.setAttribute("aria-label", `${name || "Order of summation"}, ${facts}`);
    this.element.setAttribute("aria-label", name || "Order of summation");
    this.crumbs.parentNode.setAttribute("aria-label", `Where the picture of ${name} stands`);
    if (keep && this.place) {
      this.to(this.place, { keepFocus: true });
    } else {
      this.back = [];
      this.to(first.place, {});
    }
  }

  keyOf(place, folded = this.view.folded) {
    return `${folded}:${place.join(":")}`;
  }

  /** Show a window: at once from the cells that are here, then from those the kernel sends. */
  to(place, { remember = false, keepFocus = false, toMark = false } = {}) {
    if (remember && this.place) this.back.push([this.view.folded, this.place]);
    this.place = place;
    if (!keepFocus) this.focus = 0;
    this.toMark = toMark;
    const kept = this.kept.get(this.keyOf(place));
    if (kept) {
      this.view.asker.drop(`window${this.side}`);
      this.show(kept, keepFocus);
      return;
    }
    if (this.shown) this.paint();
    const { side } = this;
    const folded = this.view.folded;
    const question = { ask: "window", side, folded, place };
    this.view.asker.ask(`window${side}`, question, ({ view }) => {
      if (this.kept.size > 60) this.kept.delete([...this.kept.keys()][2]);
      this.kept.set(this.keyOf(place, folded), view);
      this.show(view, keepFocus);
    });
  }

  show(shown, keepFocus) {
    this.shown = shown;
    this.place = shown.place;
    if (!keepFocus || this.focus >= shown.cells.row.length) this.focus = 0;
    if (this.toMark && shown.mark >= 0) this.focus = shown.mark;
    this.paint();
    this.nameCrumbs();
    if (this.toMark && this.side === 0) this.view.tell(this, this.focus);
    if (this.active) {
      this.look(this.focus);
      const here = this.crumbs.lastElementChild.textContent;
      this.view.live.textContent = `Shown: ${here}, in ${shown.rows.length} rows.`;
    }
    this.view.changed();
  }

  get active() {
    return document.activeElement === this.picture;
  }

  whole() {
    const root = this.view.model.get("views")[this.side][Number(this.view.folded)];
    this.to(root.place, { remember: true });
  }

  /** Back to where one came from, or to what holds this. */
  outwards() {
    const [folded, place] = this.back.pop() ?? [];
    if (place && folded === this.view.folded) this.to(place);
    else if (this.shown.out) this.to(this.shown.out);
    else this.view.say("This is the whole order.");
  }

  /** Closer: to a cell, or where it is the window itself to its middle. */
  into(k) {
    const { cells, rows } = this.shown;
    const [low, high, level] = this.place;
    const first = Math.max(cells.x0[k], 0);
    const place = [first, cells.x1[k], rows[cells.row[k]][0]];
    if (place[0] === low && place[1] === high && place[2] === level) {
      if (this.view.folded) this.view.say("This is what is shown already: choose a part below it.");
      else this.closer(k);
    } else {
      this.to(place, { remember: true });
    }
  }

  /** Half the places, about a cell. */
  closer(k) {
    if (this.view.folded) {
      this.into(k); // of a folded picture no half makes sense
      return;
    }
    const [low, high] = this.place;
    const wide = Math.ceil((high - low) / 2);
    if (wide === high - low) {
      this.view.say("This is a single term: there is nothing below it.");
      return;
    }
    const { cells } = this.shown;
    const middle = (Math.max(low, cells.x0[k]) + Math.min(high, cells.x1[k])) / 2;
    const first = Math.min(Math.max(low, Math.round(middle - wide / 2)), high - wide);
    this.to([first, first + wide, this.shown.rows.at(-1)[1]], { remember: true });
  }

  nameCrumbs() {
    const { path } = this.shown;
    const [low, high] = this.place;
    const items = path.map(([place, terms, sums], k) => {
      const words = k === 0 ? `all ${number(this.order.n)} terms` : this.sumOf(terms, sums);
      const last = k === path.length - 1;
      const here = last && place[0] === low && place[1] === high;
      if (here) return make("li", {}, make("span", { "aria-current": "location" }, words));
      return make(
        "li",
        {},
        button(words, `Zoom out to ${words}`, () => this.to(place, { remember: true })),
      );
    });
    const end = path.at(-1)[0];
    if (end[0] !== low || end[1] !== high) {
      const words = `places ${number(low)} to ${number(high - 1)}`;
      items.push(make("li", {}, make("span", { "aria-current": "location" }, words)));
    }
    this.crumbs.replaceChildren(...items);
  }

  sumOf(terms, sums) {
    const each = terms === 1 ? "1 term" : `${number(terms)} terms`;
    return sums > 1 ? `${number(sums)} × ${each}` : each;
  }

  // ---- drawing ------------------------------------------------------------------------------------

  paint() {
    const { cells, rows, mark, folded } = this.shown;
    const { n } = this.order;
    const wide = Math.max(240, this.picture.clientWidth || 800);
    const axis = folded ? 8 : AXIS;
    const room = wide - axis - 4;
    const tall = Math.min(38, Math.max(20, Math.floor(HIGH / rows.length)));
    const [low, high] = this.place;
    const x = (place) => axis + ((Math.min(Math.max(place, low), high) - low) / (high - low)) * room;
    const palette = this.view.model.get("palette");
    const items = [];
    const labels = [];
    this.boxes = [];
    for (let k = 0; k < cells.row.length; k += 1) {
      const left = x(cells.x0[k]);
      const box = [left, cells.row[k] * tall, Math.max(x(cells.x1[k]) - left, 0), tall];
      this.boxes.push(box);
      if (box[2] <= 0 && (cells.x1[k] <= low || cells.x0[k] >= high)) continue;
      const color = mixed(palette, this.view.shade(cells, k, n));
      const many = cells.pooled[k] > 1;
      items.push(
        draw("rect", {
          role: "treeitem",
          id: `${this.id}-${k}`,
          "data-k": k,
          "aria-level": cells.row[k] + 1,
          "aria-label": this.view.describe(this, k).join("; "),
          x: box[0].toFixed(1),
          y: box[1],
          width: Math.max(box[2], 0.8).toFixed(1),
          height: tall,
          fill: css(color),
          class: many ? "wb-many" : box[2] > 5 ? "wb-cell" : "wb-thin",
        }),
      );
      if (!many) labels.push(...this.label(cells, k, box, inkOn(color)));
    }
    const levels = folded
      ? []
      : rows.map(([first, last], k) =>
          draw(
            "text",
            { x: axis - 6, y: (k + 0.5) * tall + 4.5, class: "wb-level" },
            first === last ? number(first) : `${number(first)}…`,
          ),
        );
    const marks = draw("g", { "aria-hidden": "true", class: "wb-marks" });
    if (mark >= 0 && this.boxes[mark]) {
      const [a, b, c, d] = this.boxes[mark];
      marks.append(
        draw("rect", { x: a, y: b, width: Math.max(c, 3), height: d, class: "wb-mark" }),
        draw("path", { d: `M${a + c / 2} ${b + 9} l7 -9 l-14 0 z`, class: "wb-arrow" }),
      );
    }
    this.rings = draw("g", { "aria-hidden": "true" });
    this.svg.setAttribute("height", rows.length * tall + 8);
    this.svg.setAttribute("viewBox", `0 -4 ${wide} ${rows.length * tall + 8}`);
    this.svg.replaceChildren(
      draw("g", { role: "none" }, ...items),
      draw("g", { "aria-hidden": "true", class: "wb-labels" }, ...labels),
      draw("g", { "aria-hidden": "true" }, ...levels),
      marks,
      this.rings,
    );
    this.axis.style.paddingLeft = `${axis}px`;
    this.axis.replaceChildren(
      make("span", {}, folded ? "" : number(low)),
      make("span", {}, folded ? "equal sums share a cell" : "terms, as the order takes them"),
      make("span", {}, folded ? "" : number(high)),
    );
    this.ring();
  }

  /** The longest text that a cell has room for; a short one may stand upright. */
  label(cells, k, [left, top, wide, tall], ink) {
    const choices = this.view.labels(cells, k);
    const [x, y] = [left + wide / 2, top + tall / 2];
    const lying = choices.find((words) => words.length * LETTER + 6 < wide);
    if (lying) return [draw("text", { x: x.toFixed(1), y: y + 4.5, fill: ink }, lying)];
    const upright = choices.at(-1);
    if (wide < 14 || upright.length * LETTER + 4 > tall) return [];
    const at = `translate(${(x + 4.5).toFixed(1)} ${y}) rotate(-90)`;
    return [draw("text", { transform: at, fill: ink }, upright)];
  }

  ring() {
    this.rings?.replaceChildren();
    if (!this.active || !this.boxes?.[this.focus]) return;
    const [a, b, c, d] = this.boxes[this.focus];
    for (const name of ["wb-ring-out", "wb-ring-in"]) {
      this.rings.append(
        draw("rect", { x: a + 1, y: b + 1, width: Math.max(c - 2, 2), height: d - 2, class: name }),
      );
    }
  }

  // ---- moving about -------------------------------------------------------------------------------

  look(k) {
    this.focus = k;
    this.view.active = this;
    this.picture.setAttribute("aria-activedescendant", `${this.id}-${k}`);
    this.ring();
    this.view.tell(this, k);
    const cell = this.shown.cells.cell[k];
    if (cell < 0) return;
    const question = { ask: "words", side: this.side, folded: this.shown.folded, cell };
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.view.asker.ask("words", question, ({ terms, order }) => {
        if (this.focus === k) this.view.words(terms, order);
      });
    }, 120);
  }

  /** The next cell in a direction that can be seen; the same one where there is none. */
  next(k, step, across) {
    const { cells } = this.shown;
    const [low, high] = this.place;
    const seen = (j) => cells.x1[j] > low && cells.x0[j] < high;
    if (across) {
      const j = k + step;
      return cells.row[j] === cells.row[k] && seen(j) ? j : k;
    }
    const middle = (Math.max(low, cells.x0[k]) + Math.min(high, cells.x1[k])) / 2;
    let best = k;
    let far = Infinity;
    for (let j = 0; j < cells.row.length; j += 1) {
      if (cells.row[j] !== cells.row[k] + step || !seen(j)) continue;
      const inside = cells.x0[j] < cells.x1[k] && cells.x1[j] > cells.x0[k];
      if (!inside) continue;
      const away = Math.max(cells.x0[j] - middle, middle - cells.x1[j], 0);
      if (away < far) [best, far] = [j, away];
    }
    return best;
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !this.shown) return;
    const moves = {
      ArrowUp: () => this.look(this.next(this.focus, -1, false)),
      ArrowDown: () => this.look(this.next(this.focus, 1, false)),
      ArrowLeft: () => this.look(this.next(this.focus, -1, true)),
      ArrowRight: () => this.look(this.next(this.focus, 1, true)),
      Enter: () => this.into(this.focus),
      " ": () => this.into(this.focus),
      "+": () => this.closer(this.focus),
      "=": () => this.closer(this.focus),
      "-": () => this.shown.out && this.to(this.shown.out, { remember: true }),
      Escape: () => this.outwards(),
      Backspace: () => this.outwards(),
      Home: () => this.whole(),
    };
    if (!moves[event.key]) return;
    taken(event);
    moves[event.key]();
  }

  /** The cell below the pointer, or null. */
  under(event) {
    const k = event.target.dataset?.k;
    return k === undefined ? null : Number(k);
  }

  clicked(event) {
    const k = this.under(event);
    if (k === null) return;
    this.look(k);
    this.into(k);
  }

  hover(event) {
    const k = this.under(event);
    if (k !== null) this.view.tell(this, k);
  }
}

class TreePicture {
  constructor(model, root) {
    this.model = model;
    this.byError = false;
    this.asker = new Asker(model, (text) => this.say(text));
    this.tools = make("div", { class: "wb-tools", role: "group", "aria-label": "Zoom and fold" });
    this.facts = make("div", { class: "wb-facts" });
    this.more = make("div", { class: "wb-more" });
    this.live = make("div", { class: "wb-live", role: "status", "aria-live": "polite" });
    this.notice = make("div", { class: "wb-notice", hidden: true });
    this.legend = make("div", { class: "wb-legend" });
    this.difference = make("p", { class: "wb-difference" });
    this.evidence = make("small", { class: "wb-evidence" });
    this.panes = model.get("orders").map((_, side) => new Pane(this, side));
    this.active = this.panes[0];
    this.makeTools();
    root.classList.add("wb-view", "wb-tree");
    root.dataset.lmSuppressShortcuts = "true";
    root.append(
      this.tools,
      this.difference,
      make("div", { class: "wb-panes" }, ...this.panes.map((pane) => pane.element)),
      make("div", { class: "wb-detail" }, this.facts, this.more),
      this.notice,
      this.live,
      this.legend,
      this.evidence,
    );
    this.heard = [
      ["change:views", () => this.start(true)],
      ["change:folded", () => this.refold()],
    ];
    for (const [name, act] of this.heard) model.on(name, act);
    this.size = new ResizeObserver(() => {
      for (const pane of this.panes) if (pane.shown) pane.paint();
    });
    this.start(false);
    this.size.observe(root);
  }

  get folded() {
    return this.model.get("folded");
  }

  start(keep) {
    const given = this.model.get("orders")[0];
    this.error.hidden = !given.has_shares;
    const { equal, text } = this.model.get("difference");
    this.difference.hidden = !text;
    this.difference.textContent = text ? text.trim() : "";
    this.mark.hidden = !text || equal || !this.model.get("difference").places.length;
    this.evidence.textContent = this.model.get("evidence");
    for (const pane of this.panes) pane.start(keep);
    this.showLegend();
    this.tell(this.active, this.active.focus);
  }

  makeTools() {
    const act = (name, ...more) => () => this.active[name](...more);
    this.fold = button("Fold equal sums", "Draw equal sums once, with their number", () => {
      this.model.set("folded", !this.folded);
      this.model.save_changes();
    });
    this.error = button("Colour: share of error bound", "Colour by number of terms or share", () => {
      this.byError = !this.byError;
      this.error.setAttribute("aria-pressed", this.byError);
      for (const pane of this.panes) pane.paint();
      this.showLegend();
    });
    this.error.setAttribute("aria-pressed", "false");
    this.mark = button("To the first difference", "Zoom to the smallest sums that hold the first difference", () => {
      if (this.folded) {
        this.model.set("folded", false); // a sum that is drawn once with its equals has no place
        this.model.save_changes();
      }
      const { places } = this.model.get("difference");
      for (const pane of this.panes) pane.to(places[pane.side][0], { remember: true, toMark: true });
    });
    this.tools.append(
      button("Whole", "The whole order (Home)", act("whole")),
      button("− Out", "Zoom out, back to where you came from (Escape)", act("outwards")),
      button("+ In", "Zoom into the cell that is chosen (Enter, +)", () =>
        this.active.into(this.active.focus),
      ),
      this.fold,
      this.error,
      this.mark,
    );
  }

  refold() {
    for (const pane of this.panes) {
      pane.back = [];
      pane.place = null;
      pane.start(false);
    }
    this.showLegend();
    const words = this.folded ? "Equal sums are drawn once." : "Every sum is drawn by itself.";
    this.live.textContent = words;
  }

  changed() {
    this.notice.hidden = true;
    this.fold.setAttribute("aria-pressed", this.folded);
    if (this.panes.every((pane) => pane.shown)) this.showLegend();
  }

  /** Where on the map a cell's colour is. */
  shade(cells, k, n) {
    if (this.byError && cells.below) return cells.below[k] ?? 0;
    return Math.log2(cells.terms[k]) / Math.log2(Math.max(n, 2));
  }

  /** What could stand in a cell, the longest first. */
  labels(cells, k) {
    const [terms, count] = [cells.terms[k], cells.count[k]];
    if (terms === 1 && count === 1) {
      return [`term ${number(cells.first[k])}`, number(cells.first[k])];
    }
    const each = terms === 1 ? "1 term" : `${number(terms)} terms`;
    const whole = count > 1 ? `${number(count)} × ${each}` : each;
    const found = [whole, count > 1 ? `${number(count)} × ${number(terms)}` : number(terms)];
    if (cells.below && cells.below[k] !== null && terms > 1) {
      found.unshift(`${whole} · ${percent(cells.below[k])}`);
    }
    if (cells.run[k]) {
      const parts = `${number(cells.things[k])} parts from left to right`;
      found.unshift(`${found[0]}: ${parts}`);
    }
    return found;
  }

  /** A cell in words, piece by piece. */
  describe(pane, k) {
    const { cells } = pane.shown;
    const at = (name) => cells[name][k];
    const [terms, count, first, last] = ["terms", "count", "first", "last"].map(at);
    const words = [];
    if (at("pooled") > 1) {
      const least = at("terms_min");
      const sizes = least === terms ? number(terms) : `${number(least)} to ${number(terms)}`;
      const noun = terms === 1 ? "term" : "terms";
      words.push(
        `${number(at("pooled"))} cells of ${sizes} ${noun} each, too narrow to draw apart`,
        `among the terms ${number(first)} to ${number(last)}; zoom in to see them`,
      );
    } else {
      const many = count > 1 ? `${number(count)} × ` : "";
      if (terms === 1) {
        words.push(count > 1 ? `${many}one term` : `term ${number(first)}`);
      } else {
        words.push(`${many}sum of ${number(terms)} terms`);
        const together = last - first + 1 === terms;
        const where = together
          ? `terms ${number(first)}..${number(last)}`
          : `terms between ${number(first)} and ${number(last)}`;
        words.push(count > 1 ? `the first of them: ${where}` : where);
      }
      if (count > 1 && at("step")) words.push(`the next ones ${number(at("step"))} further each`);
      if (at("run")) words.push(`${number(at("things"))} parts added from left to right`);
      else if (at("things") > 2) words.push(`fused: ${at("things")} parts, rounded once`);
    }
    const [least, most] = [at("depth_min"), at("depth_max")];
    const depth = least === most ? number(least) : `${number(least)} to ${number(most)}`;
    words.push(most === 0 ? "depth 0: the result" : `depth ${depth} (additions that follow)`);
    if (cells.below) {
      if (cells.below[k] === null) words.push("no share of error: a sum is no finite number");
      else {
        const own = terms > 1 ? ` (its own rounding ${percent(cells.own[k])})` : "";
        words.push(`share of the running error bound ${percent(cells.below[k])}${own}`);
      }
    }
    if (pane.shown.mark === k) {
      words.push(pane.shown.mark_is_it ? "the first difference" : "the first difference is in here");
    }
    return words;
  }

  tell(pane, k) {
    if (!pane.shown || k >= pane.shown.cells.row.length) return;
    const [head, ...rest] = this.describe(pane, k);
    const name = this.panes.length > 1 ? `${pane.order.label}: ` : "";
    this.facts.replaceChildren(make("strong", {}, name + head), ` · ${rest.join(" · ")}`);
    this.more.textContent = "";
  }

  words(terms, order) {
    this.more.textContent = `Terms ${terms}${order ? `. Order: ${order}` : ""}`;
  }

  say(text) {
    this.notice.hidden = false;
    this.notice.textContent = text;
    this.live.textContent = text;
  }

  showLegend() {
    const palette = this.model.get("palette");
    const stops = palette.filter((_, k) => k % 8 === 0).join(", ");
    const given = this.model.get("orders")[0];
    const n = Math.max(...this.model.get("orders").map((o) => o.n));
    const ends = this.byError ? ["0 %", "100 %"] : ["1", number(n)];
    const what = this.byError
      ? "share of the running error bound, with all below"
      : "terms in a sum (log)";
    const bar = make("span", { class: "wb-bar", "aria-hidden": "true" });
    bar.style.background = `linear-gradient(to right, ${stops})`;
    const bits = [
      make("span", {}, `${what}: `),
      make("span", {}, ends[0]),
      bar,
      make("span", {}, ends[1]),
    ];
    if (!this.folded) {
      const several = this.panes.some((pane) => pane.shown.rows.some(([a, b]) => a < b));
      const more = several ? "; a row of several shows the sums at its first" : "";
      bits.push(make("span", { class: "wb-hint" }, `left: depth${more}`));
    }
    if (given.has_shares) {
      const what = given.terms_label ? ` of ${given.terms_label}` : "";
      const text =
        given.bound === null
          ? `no error bound${what}: a partial sum is not finite`
          : `% in a cell: its share of the running error bound${what}, u Σ|partial sum| = ` +
            given.bound.toExponential(2);
      bits.push(make("span", { class: "wb-hint" }, text));
    }
    const keys = "Keys in the picture: arrows move, Enter or + zooms in, Escape or − out, Home: whole";
    this.legend.replaceChildren(...bits, make("span", { class: "wb-hint" }, keys));
  }

  end() {
    for (const [name, act] of this.heard) this.model.off(name, act);
    this.size.disconnect();
    this.asker.end();
  }
}

function render({ model, el }) {
  const picture = new TreePicture(model, el);
  return () => picture.end();
}

export default { render };
