/** How a stretch of log text looks. Colours are "0".."15" of the palette, or "#rrggbb". */
export interface TextStyle {
  fg?: string;
  bg?: string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  strike?: boolean;
  inverse?: boolean;
}

export interface StyledSpan {
  text: string;
  look: TextStyle;
}

export const PLAIN_STYLE: TextStyle = {};

// An own parser: the kept libraries (anser, ansi-sequence-parser) let window titles, links, control
// characters and turned text through, and say nothing of the style in which a line ends.
const ESC = "\u001b";
// CSI sequences; strings (OSC, DCS, SOS, PM, APC) up to their end or the line's; other escapes.
const ESCAPES =
  /\u001b\[([0-?]*)[ -/]*([@-~])|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[ -/]*[0-~]?/g;
// Control characters, and those that turn the direction of text and so can make a line lie.
const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Splits a line into spans of one look each. Of all escape sequences only colours and faces (SGR)
 * are obeyed; the others, titles and links included, are dropped. */
export function parseAnsi(
  line: string,
  start: TextStyle = PLAIN_STYLE,
): { spans: StyledSpan[]; end: TextStyle } {
  if (!line.includes(ESC)) {
    return { spans: [{ text: line.replace(UNPRINTABLE, ""), look: start }], end: start };
  }
  const spans: StyledSpan[] = [];
  let look = start;
  let done = 0;
  for (const found of line.matchAll(ESCAPES)) {
    push(spans, line.slice(done, found.index), look);
    done = found.index + found[0].length;
    if (found[2] === "m") look = applySgr(look, found[1] ?? "");
  }
  push(spans, line.slice(done), look);
  return { spans, end: look };
}

/** The text alone, as one reads and searches it. */
export function plainText(line: string): string {
  const text = line.includes(ESC) ? line.replace(ESCAPES, "") : line;
  return text.replace(UNPRINTABLE, "");
}

function push(spans: StyledSpan[], raw: string, look: TextStyle) {
  const text = raw.replace(UNPRINTABLE, "");
  if (text) spans.push({ text, look });
}

const STYLE_CODES: Record<number, TextStyle> = {
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  9: { strike: true },
  22: { bold: undefined, dim: undefined },
  23: { italic: undefined },
  24: { underline: undefined },
  27: { inverse: undefined },
  29: { strike: undefined },
  39: { fg: undefined },
  49: { bg: undefined },
};

function applySgr(look: TextStyle, parameters: string): TextStyle {
  const codes = parameters.split(/[;:]/).map(Number);
  let next = look;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 38 || code === 48) {
      const [colour, used] = extended(codes.slice(at + 1));
      if (colour) next = { ...next, [code === 38 ? "fg" : "bg"]: colour };
      at += used;
    } else {
      next = code === 0 ? PLAIN_STYLE : { ...next, ...(STYLE_CODES[code] ?? basic(code)) };
    }
  }
  return next;
}

function basic(code: number): TextStyle {
  if (code >= 30 && code <= 37) return { fg: String(code - 30) };
  if (code >= 40 && code <= 47) return { bg: String(code - 40) };
  if (code >= 90 && code <= 97) return { fg: String(code - 82) };
  if (code >= 100 && code <= 107) return { bg: String(code - 92) };
  return {};
}

/** The colour that follows a 38 or 48, and how many numbers it took. */
function extended([kind, ...rest]: number[]): [string | undefined, number] {
  if (kind === 5) return [palette(rest[0] ?? 0), 2];
  if (kind === 2) return [hex(rest.slice(0, 3)), 4];
  return [undefined, 0];
}

function palette(index: number): string | undefined {
  if (!(index >= 0 && index <= 255)) return undefined;
  if (index < 16) return String(index);
  if (index >= 232) return hex(Array<number>(3).fill(8 + (index - 232) * 10));
  const cube = [Math.floor((index - 16) / 36), Math.floor((index - 16) / 6) % 6, (index - 16) % 6];
  return hex(cube.map((level) => (level === 0 ? 0 : 55 + level * 40)));
}

function hex(parts: number[]): string | undefined {
  if (parts.length !== 3 || parts.some((part) => !(part >= 0 && part <= 255))) return undefined;
  return `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
