import { useComputedColorScheme } from "@mantine/core";
import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import { useEffect, useEffectEvent, useRef } from "react";
import { type End, ExecSession } from "./ExecSession";
import css from "./Terminal.module.css";
import "@xterm/xterm/css/xterm.css";

const SCROLLBACK = 5000;
/** All other keys are the shell's, the tab key included. */
export const LEAVE_KEYS = "Ctrl+Shift+L";

interface Props {
  attempt: string;
  label: string;
  onOpen: () => void;
  onEnd: (end: End) => void;
  /** The keyboard is to go on outside of the terminal. */
  onLeave: () => void;
}

/** A terminal on a shell in the attempt's container, for as long as it is on the page. */
export function TerminalScreen({ attempt, label, onOpen, onEnd, onLeave }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const shown = useRef<Terminal | null>(null);
  const scheme = useComputedColorScheme();
  const opened = useEffectEvent(onOpen);
  const ended = useEffectEvent(onEnd);
  const left = useEffectEvent(onLeave);

  useEffect(() => {
    if (!box.current) return undefined;
    const terminal = openTerminal(box.current, label);
    terminal.attachCustomKeyEventHandler((event) => {
      if (!isLeaving(event)) return true;
      event.preventDefault();
      if (event.type === "keydown") left();
      return false;
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    fit.fit();
    shown.current = terminal;

    const { rows, cols } = terminal;
    const session = new ExecSession(
      addressOf(attempt),
      { rows, cols },
      {
        onOpen: () => opened(),
        onOutput: (bytes) => terminal.write(bytes),
        onEnd: (end) => {
          terminal.options.disableStdin = true;
          ended(end);
        },
      },
    );
    terminal.onData((text) => session.input(text));
    terminal.onResize((size) => session.resize(size));
    const sizes = new ResizeObserver(() => fit.fit());
    sizes.observe(box.current);
    terminal.focus();
    return () => {
      sizes.disconnect();
      session.close();
      terminal.dispose();
    };
  }, [attempt, label]);

  useEffect(() => {
    if (shown.current) shown.current.options.theme = terminalTheme(document.documentElement);
  }, [scheme]);

  return <div ref={box} className={css.screen} />;
}

function isLeaving({ ctrlKey, shiftKey, code }: KeyboardEvent): boolean {
  return ctrlKey && shiftKey && code === "KeyL";
}

function openTerminal(box: HTMLElement, label: string): Terminal {
  const root = document.documentElement;
  const terminal = new Terminal({
    fontFamily: getComputedStyle(root).getPropertyValue("--mono"),
    fontSize: 13,
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    scrollback: SCROLLBACK,
    screenReaderMode: true,
    theme: terminalTheme(root),
  });
  withoutStyleElements(() => terminal.open(box));
  terminal.textarea?.setAttribute("aria-label", label);
  return terminal;
}

function addressOf(attempt: string): string {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${location.host}/ws/attempts/${attempt}/exec`;
}

const ANSI = [
  "black",
  "red",
  "green",
  "yellow",
  "blue",
  "magenta",
  "cyan",
  "white",
  "brightBlack",
  "brightRed",
  "brightGreen",
  "brightYellow",
  "brightBlue",
  "brightMagenta",
  "brightCyan",
  "brightWhite",
] as const;

/** The colours of logs, as xterm.js takes them: it cannot read CSS variables. */
function terminalTheme(root: HTMLElement): ITheme {
  const style = getComputedStyle(root);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    background: colour("--log-bg"),
    foreground: colour("--ink"),
    cursor: colour("--accent"),
    cursorAccent: colour("--log-bg"),
    selectionBackground: `${colour("--accent")}55`,
    ...Object.fromEntries(ANSI.map((name, number) => [name, colour(`--ansi-${number}`)])),
  };
}

/** Runs `open`, in which xterm.js makes <style> elements for its colours and sizes: the page's
 * security policy refuses those. Here they become constructed style sheets, which are the script's
 * own doing and so allowed. (Its `documentOverride` reaches only some of them.) */
function withoutStyleElements(open: () => void): void {
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
