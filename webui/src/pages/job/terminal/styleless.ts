/** A view of the document for xterm.js, which writes its colours and sizes into <style> elements:
 * the page's security policy refuses those. Here they become constructed style sheets, which are
 * the script's own doing and so allowed. */
export function withoutStyleElements(real: Document): Document {
  function createElement(name: string): HTMLElement {
    return name === "style" ? sheetElement(real) : real.createElement(name);
  }
  return new Proxy(real, {
    get(target, key) {
      if (key === "createElement") return createElement;
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

/** Behaves as a <style> element as far as xterm.js uses one: its text is a style sheet that
 * applies until the element is removed. */
function sheetElement(real: Document): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = real.createElement("span");
  element.hidden = true;
  real.adoptedStyleSheets = [...real.adoptedStyleSheets, sheet];
  return Object.defineProperties(element, {
    textContent: { set: (text: string) => sheet.replaceSync(text) },
    remove: {
      value: () => {
        real.adoptedStyleSheets = real.adoptedStyleSheets.filter((each) => each !== sheet);
        Element.prototype.remove.call(element);
      },
    },
  });
}
