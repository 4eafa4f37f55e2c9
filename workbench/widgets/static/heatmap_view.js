// Signed numbers on a map of colours centred on 0. The kernel bins them; here they are drawn, and a
// cell is chosen by mouse or keyboard.

const CLOSER = 4; // times, a step in

class MapPicture {
  constructor(model, root) {
    this.model = model;
    this.back = [];
    this.cursor = [0, 0]; // the cell that is chosen: row and column of the bins
    this.asker = new Asker(model, (text) => this.say(text));
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.mark = make("div", { class: "wb-cursor", "aria-hidden": "true" });
    this.id = `wb-${Math.random().toString(36).slice(2)}`;
    this.chosen = make("div", { class: "wb-facts", id: this.id, role: "status" });
    this.under = make("div", { class: "wb-more" });
    this.notice = make("div", { class: "wb-notice", role: "status", hidden: true });
    this.frame = make(
      "div",
      {
        class: "wb-frame",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "heat map",
        "aria-describedby": this.id,
        onkeydown: (event) => this.key(event),
        onclick: (event) => this.clicked(event),
        ondblclick: () => this.closer(),
        onmousemove: (event) => this.hover(event),
        onmouseleave: () => {
          this.under.textContent = "";
        },
      },
      this.canvas,
      this.mark,
    );
    this.finding = make("div", { class: "wb-finding" });
    this.sides = make("div", { class: "wb-sides" });
    this.rows = make("div", { class: "wb-sides" });
    this.list = make("ol");
    this.listHead = make("h3", { id: `${this.id}-worst` }, "");
    this.legend = make("div", { class: "wb-legend" });
    this.evidence = make("small", { class: "wb-evidence" });
    const tools = make(
      "div",
      { class: "wb-tools", role: "group", "aria-label": "Zoom" },
      button("Whole", "The whole map (Home)", () => this.whole()),
      button("− Out", "Zoom out (Escape)", () => this.outwards()),
      button("+ In", "Zoom in on the cell that is chosen (Enter)", () => this.closer()),
    );
    root.classList.add("wb-view", "wb-heatmap");
    root.dataset.lmSuppressShortcuts = "true";
    root.append(
      this.finding,
      tools,
      make(
        "div",
        { class: "wb-beside" },
        make("div", { class: "wb-map" }, this.rows, this.frame, this.sides, this.legend),
        make(
          "section",
          { class: "wb-worst", "aria-labelledby": `${this.id}-worst` },
          this.listHead,
          this.list,
        ),
      ),
      make("div", { class: "wb-detail" }, this.chosen, this.under),
      this.notice,
      this.evidence,
    );
    this.heard = [
      ["change:first", () => this.start()],
      ["change:selected", () => this.follow()],
      ["change:chosen", () => this.follow()],
    ];
    for (const [name, act] of this.heard) model.on(name, act);
    this.size = new ResizeObserver(() => this.placeMark());
    this.start();
    this.size.observe(root);
  }

  start() {
    const get = (name) => this.model.get(name);
    const first = get("first");
    this.first = this.unpacked(first, first.values, first.at);
    this.finding.textContent = get("label");
    this.evidence.textContent = get("evidence");
    this.frame.setAttribute("aria-label", get("alt"));
    const [row, column] = get("names");
    this.listHead.textContent = `Farthest from 0${get("unit") ? `, in ${get("unit")}` : ""}`;
    this.list.replaceChildren(
      ...get("worst").map(([r, c, value]) =>
        make(
          "li",
          {},
          button(
            `${this.signed(value)} · ${row} ${number(r)}, ${column} ${number(c)}`,
            `Choose ${row} ${number(r)}, ${column} ${number(c)}`,
            () => this.choose(r, c, true),
            { "data-place": `${r},${c}`, "aria-pressed": "false" },
          ),
        ),
      ),
    );
    this.back = [];
    this.show(this.first);
  }

  /** Numbers of bins out of their bytes; a value is a share of the limit. */
  unpacked(view, values, at) {
    const bytes = (x) => {
      const buffer = x.buffer ?? x;
      return buffer.slice(x.byteOffset ?? 0, (x.byteOffset ?? 0) + x.byteLength);
    };
    const shares = new Float32Array(bytes(values));
    return { ...view, shares, at: new Int32Array(bytes(at)) };
  }

  show(view) {
    this.view = view;
    this.notice.hidden = true;
    this.paint();
    const [row, column] = this.model.get("names");
    const [low, high] = [view.low, view.high];
    this.rows.replaceChildren(
      make("span", {}, `↓ ${row} ${number(low[0])} to ${number(high[0] - 1)}`),
      make("span", {}, view.outputs > 1 ? `a cell: the largest of ${number(view.outputs)}` : ""),
    );
    this.sides.replaceChildren(
      make("span", {}, number(low[1])),
      make("span", {}, `${column} →`),
      make("span", {}, number(high[1] - 1)),
    );
    this.showLegend();
    this.follow();
  }

  paint() {
    const { tall, wide, shares } = this.view;
    const palette = this.model.get("palette");
    const table = Array.from({ length: 513 }, (_, k) => mixed(palette, k / 512));
    this.canvas.width = wide;
    this.canvas.height = tall;
    this.canvas.style.height = `${Math.min(340, Math.max(150, tall * 22))}px`;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(wide, tall);
    for (let k = 0; k < shares.length; k += 1) {
      const share = shares[k];
      const known = Number.isFinite(share);
      const place = Math.round(256 * (1 + Math.min(Math.max(share, -1), 1)));
      const [r, g, b] = known ? table[place] : [0, 0, 0];
      image.data.set([r, g, b, 255], 4 * k);
    }
    context.putImageData(image, 0, 0);
  }

  signed(value) {
    if (typeof value !== "number") return String(value);
    return `${value < 0 ? "−" : "+"}${Math.abs(Number(value.toPrecision(3)))}`;
  }

  valueAt(k) {
    const share = this.view.shares[k];
    return Number.isFinite(share) ? this.signed(share * this.model.get("limit")) : "NaN or Inf";
  }

  /** A cell in words. */
  describe(i, j) {
    const { view } = this;
    const [row, column] = this.model.get("names");
    const k = i * view.wide + j;
    const [r, c] = [view.at[2 * k], view.at[2 * k + 1]];
    const unit = this.model.get("unit");
    const many = view.outputs > 1 ? " (the largest in its cell)" : "";
    const place = `${row} ${number(r)}, ${column} ${number(c)}`;
    return `${place}: ${this.valueAt(k)}${unit ? ` ${unit}` : ""}${many}`;
  }

  /** Choose a number of the table; the kernel tells everybody that it is chosen. */
  choose(row, column, seek = false) {
    this.model.set("selected", [row, column]);
    this.model.save_changes();
    if (seek && !this.holds(row, column)) this.whole();
    this.follow();
  }

  holds(row, column) {
    const { low, high } = this.view;
    return row >= low[0] && row < high[0] && column >= low[1] && column < high[1];
  }

  /** The cursor goes to the cell that holds what is chosen. */
  follow() {
    const [row, column] = this.model.get("selected");
    if (this.holds(row, column)) {
      const find = (edges, value) => edges.findLastIndex((edge) => edge <= value);
      this.cursor = [find(this.view.row_edges, row), find(this.view.column_edges, column)];
    }
    this.chosen.replaceChildren(make("strong", {}, this.model.get("chosen")));
    for (const item of this.list.querySelectorAll("button")) {
      item.setAttribute("aria-pressed", item.dataset.place === `${row},${column}`);
    }
    this.placeMark();
  }

  placeMark() {
    if (!this.view) return;
    const [row, column] = this.model.get("selected");
    this.mark.hidden = !this.holds(row, column);
    const { row_edges: down, column_edges: across } = this.view;
    const [i, j] = this.cursor;
    // Bins are drawn equally large, also the last, which may hold fewer numbers.
    this.mark.style.top = `${(100 * i) / (down.length - 1)}%`;
    this.mark.style.left = `${(100 * j) / (across.length - 1)}%`;
    this.mark.style.height = `${100 / (down.length - 1)}%`;
    this.mark.style.width = `${100 / (across.length - 1)}%`;
  }

  // ---- moving about -------------------------------------------------------------------------------

  bin(event) {
    const box = this.canvas.getBoundingClientRect();
    const place = (value, size, count) =>
      Math.min(count - 1, Math.max(0, Math.floor((value / size) * count)));
    return [
      place(event.clientY - box.top, box.height, this.view.tall),
      place(event.clientX - box.left, box.width, this.view.wide),
    ];
  }

  chooseBin(i, j) {
    const k = i * this.view.wide + j;
    this.choose(this.view.at[2 * k], this.view.at[2 * k + 1]);
  }

  clicked(event) {
    this.chooseBin(...this.bin(event));
  }

  hover(event) {
    this.under.textContent = `Under the pointer: ${this.describe(...this.bin(event))}`;
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const [i, j] = this.cursor;
    const { tall, wide } = this.view;
    const step = event.shiftKey ? 10 : 1;
    const go = (a, b) => () =>
      this.chooseBin(Math.min(tall - 1, Math.max(0, a)), Math.min(wide - 1, Math.max(0, b)));
    const moves = {
      ArrowUp: go(i - step, j),
      ArrowDown: go(i + step, j),
      ArrowLeft: go(i, j - step),
      ArrowRight: go(i, j + step),
      PageUp: go(i - 10, j),
      PageDown: go(i + 10, j),
      End: go(i, wide - 1),
      Home: () => this.whole(),
      Enter: () => this.closer(),
      "+": () => this.closer(),
      "=": () => this.closer(),
      "-": () => this.outwards(),
      Escape: () => this.outwards(),
    };
    if (!moves[event.key]) return;
    taken(event);
    moves[event.key]();
  }

  whole() {
    this.back = [];
    this.show(this.first);
  }

  outwards() {
    const before = this.back.pop();
    if (before) this.show(before);
    else this.say("This is the whole map.");
  }

  /** A quarter of each side, about what is chosen. */
  closer() {
    const { low, high } = this.view;
    const chosen = this.model.get("selected");
    const sides = [0, 1].map((k) => {
      const wide = Math.max(1, Math.ceil((high[k] - low[k]) / CLOSER));
      const first = Math.min(Math.max(low[k], chosen[k] - Math.floor(wide / 2)), high[k] - wide);
      return [first, first + wide];
    });
    if (sides.every(([a, b], k) => b - a === high[k] - low[k])) {
      this.say("This is a single value.");
      return;
    }
    const question = { ask: "window", low: sides.map((s) => s[0]), high: sides.map((s) => s[1]) };
    this.asker.ask("window", question, ({ view }, buffers) => {
      this.back.push(this.view);
      this.show(this.unpacked(view, ...buffers));
    });
  }

  say(text) {
    this.notice.hidden = false;
    this.notice.textContent = text;
  }

  showLegend() {
    const palette = this.model.get("palette");
    const stops = palette.filter((_, k) => k % 4 === 0).join(", ");
    const bar = make("span", { class: "wb-bar", "aria-hidden": "true" });
    bar.style.background = `linear-gradient(to right, ${stops})`;
    const [limit, unit] = [this.model.get("limit"), this.model.get("unit")];
    this.legend.replaceChildren(
      make("span", {}, this.signed(-limit)),
      bar,
      make("span", {}, `${this.signed(limit)} ${unit}`),
      make("span", { class: "wb-hint" }, "black: NaN or Inf"),
      make(
        "span",
        { class: "wb-hint" },
        "Keys in the map: arrows choose (with Shift ten at a time), Enter zooms in, Escape out",
      ),
    );
  }

  end() {
    for (const [name, act] of this.heard) this.model.off(name, act);
    this.size.disconnect();
    this.asker.end();
  }
}

function render({ model, el }) {
  const picture = new MapPicture(model, el);
  return () => picture.end();
}

export default { render };
