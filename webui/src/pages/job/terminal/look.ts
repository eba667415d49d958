import type { ITheme } from "@xterm/xterm";

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
export function themeOf(root: HTMLElement): ITheme {
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
