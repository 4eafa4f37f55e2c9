// What the views share. It is put before the module of each view: a widget's module is loaded from
// memory and cannot import a file beside it.

const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 4000; // ms without an answer, after which the page says so
const NO_KERNEL =
  "The kernel has not answered, so this is drawn from what is here already. " +
  "If no kernel runs, run the cell to look closer.";

/** An element of HTML (or, with SVG first, of SVG) with attributes and children. */
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children);
  return element;
}

function button(text, title, act, attributes = {}) {
  return make("button", { type: "button", title, onclick: act, ...attributes }, text);
}

/** 12345 as "12,345", whatever the browser's language: so do the figures. */
function number(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** A share in percent; nothing short of the whole is rounded to 100 %. */
function percent(share) {
  if (share === null || share === undefined) return "unknown";
  const value = 100 * share;
  if (value === 0) return "0 %";
  if (value < 0.001) return "under 0.001 %";
  if (value > 99 && value < 100 - 1e-6) return `${Math.min(value, 99.9).toFixed(1)} %`;
  return `${Number(value.toPrecision(2))} %`;
}

function parts(color) {
  return [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16));
}

/** A colour of a list of evenly spaced ones, share from 0 to 1. */
function mixed(palette, share) {
  const place = Math.min(Math.max(share, 0), 1) * (palette.length - 1);
  const below = Math.min(Math.floor(place), palette.length - 2);
  const [a, b] = [parts(palette[below]), parts(palette[below + 1])];
  return a.map((x, k) => Math.round(x + (b[k] - x) * (place - below)));
}

function css([r, g, b]) {
  return `rgb(${r},${g},${b})`;
}

/** Black or white, whichever has the higher contrast (WCAG's ratio) on a colour. */
function inkOn(color) {
  const [r, g, b] = color.map((x) => {
    const s = x / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000" : "#fff";
}

/** Questions to the kernel. Of one topic only the last counts; `silent` is told where none comes. */
class Asker {
  constructor(model, silent) {
    this.model = model;
    this.silent = silent;
    this.waiting = new Map(); // topic -> {id, done, timer}
    this.last = 0;
    this.name = Math.random().toString(36).slice(2);
    this.heard = (message, buffers) => this.take(message, buffers);
    model.on("msg:custom", this.heard);
  }

  ask(topic, question, done) {
    this.drop(topic);
    this.last += 1;
    // Two pages may show one widget: an answer to the other's question is not ours.
    const id = `${this.name}:${this.last}`;
    const timer = setTimeout(() => this.silent(NO_KERNEL), PATIENCE);
    this.waiting.set(topic, { id, done, timer });
    try {
      this.model.send({ ...question, id });
    } catch {
      this.silent(NO_KERNEL);
    }
  }

  drop(topic) {
    clearTimeout(this.waiting.get(topic)?.timer);
    this.waiting.delete(topic);
  }

  take(message, buffers) {
    for (const [topic, { id, done }] of this.waiting) {
      if (message.id !== id) continue;
      this.drop(topic);
      if (message.error) this.silent(message.error);
      else done(message, buffers);
      return;
    }
  }

  end() {
    this.model.off("msg:custom", this.heard);
    for (const topic of [...this.waiting.keys()]) this.drop(topic);
  }
}

/** Keys that a picture has taken are nobody else's: JupyterLab would run its own commands. */
function taken(event) {
  event.preventDefault();
  event.stopPropagation();
}
