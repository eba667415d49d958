/** Runs `open`, in which xterm.js makes <style> elements for its colours and sizes: the page's
 * security policy refuses those. Here they become constructed style sheets, which are the script's
 * own doing and so allowed. (Its `documentOverride` reaches only some of them.) */
export function withoutStyleElements(open: () => void): void {
  const create = document.createElement.bind(document);
  document.createElement = (name: string) => (name === "style" ? sheetElement() : create(name));
  try {
    open();
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}

/** Behaves as a <style> element as far as xterm.js uses one: its text is a style sheet that
 * applies until the element is removed. */
function sheetElement(): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = Document.prototype.createElement.call(document, "span");
  element.hidden = true;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  return Object.defineProperties(element, {
    textContent: { set: (text: string) => sheet.replaceSync(text) },
    remove: {
      value: () => {
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
        Element.prototype.remove.call(element);
      },
    },
  });
}
