// What ipywidgets leave to the page: names of slider handles, a lasting live region, the clipboard.

const ROOT = ".workbench-explore";

/** Give each slider's handle the name and the value that stand beside it, and these a name too. */
function nameSliders(root) {
  for (const slider of root.querySelectorAll(".widget-slider, .widget-hslider")) {
    const label = slider.querySelector(".widget-label");
    const readout = slider.querySelector(".widget-readout");
    const handle = slider.querySelector("[role=slider]");
    if (!handle || !label) continue;
    set(handle, "aria-label", label.textContent.trim());
    if (!readout) continue;
    set(handle, "aria-valuetext", readout.textContent.trim());
    set(readout, "role", "textbox"); // it can be typed in
    set(readout, "aria-label", `${label.textContent.trim()}, typed`);
  }
}

/** Tie each tab to the panel that it shows; the Tab key stops at the one that is open. */
function nameTabs(root) {
  for (const tabs of root.querySelectorAll(".widget-tab, .jupyter-widget-tab")) {
    const current = tabs.querySelector("[role=tab][aria-selected=true]");
    const list = tabs.querySelector("[role=tablist]");
    if (current && !list.contains(document.activeElement)) {
      for (const tab of list.children) set(tab, "tabindex", tab === current ? "0" : "-1");
    }
    const panel = tabs.querySelector(".widget-tab-contents");
    if (!current || !panel) continue;
    set(panel, "role", "tabpanel");
    set(panel, "aria-label", current.textContent.trim());
  }
}

function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Keys that are pressed here are meant for what has the focus: JupyterLab would take an arrow key
 * for the next cell and "b" for a new one. Its commands with Ctrl, such as saving, stay. */
function keepKeys(event) {
  if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
}

/** Copy the text of the code area; the promise says whether it worked. */
async function copyCode(root) {
  const area = root.querySelector(".workbench-code textarea");
  if (!area) return false;
  try {
    await navigator.clipboard.writeText(area.value);
    return true;
  } catch {
    // No permission, or no secure context: the old way, from the selection.
    area.focus();
    area.select();
    return document.execCommand("copy");
  }
}

function render({ model, el }) {
  const live = document.createElement("div");
  live.className = "workbench-live";
  live.setAttribute("role", "status");
  live.setAttribute("aria-live", "polite");
  el.append(live);
  const announce = () => {
    live.textContent = model.get("announcement");
  };
  model.on("change:announcement", announce);
  announce();

  let observer = null;
  let root = null;
  const tidy = () => {
    nameSliders(root);
    nameTabs(root);
  };
  const clicked = async (event) => {
    const button = event.target.closest(".workbench-copy");
    if (!button) return;
    const worked = await copyCode(root);
    live.textContent = worked
      ? "The code is in the clipboard."
      : "The browser did not let the code be copied; it is selected: press Ctrl+C.";
    const said = button.textContent;
    button.textContent = worked ? "Copied ✓" : "Press Ctrl+C";
    setTimeout(() => {
      button.textContent = said;
    }, 1500);
  };
  let frame = 0;
  const attach = () => {
    root = el.closest(ROOT);
    if (!root) {
      frame = requestAnimationFrame(attach); // not in the page yet
      return;
    }
    tidy();
    observer = new MutationObserver(tidy);
    observer.observe(root, {
      childList: true,
      subtree: true,
      characterData: true,
      attributes: true,
      attributeFilter: ["aria-selected", "aria-valuenow"],
    });
    root.addEventListener("click", clicked);
    root.addEventListener("keydown", keepKeys);
  };
  attach();
  return () => {
    cancelAnimationFrame(frame);
    observer?.disconnect();
    root?.removeEventListener("click", clicked);
    root?.removeEventListener("keydown", keepKeys);
    model.off("change:announcement", announce);
  };
}

export default { render };
