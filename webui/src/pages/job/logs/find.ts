import { plainText } from "./ansi";
import type { Line } from "./assemble";

/** Indices of the lines that hold `needle`. Capitals count only when the needle has some. */
export function findLines(lines: readonly Line[], needle: string): number[] {
  if (!needle) return [];
  const holds = matcher(needle);
  const found: number[] = [];
  lines.forEach((line, index) => {
    if (holds(plainText(line.text))) found.push(index);
  });
  return found;
}

/** Where `needle` stands in a plain text: [start, end) pairs, none overlapping. */
export function findRanges(text: string, needle: string): [number, number][] {
  if (!needle) return [];
  const [hay, pin] = fold(text, needle);
  const ranges: [number, number][] = [];
  for (let at = hay.indexOf(pin); at >= 0; at = hay.indexOf(pin, at + pin.length)) {
    ranges.push([at, at + pin.length]);
  }
  return ranges;
}

/** Capitals count only when one looks for some. */
export function ignoresCase(needle: string): boolean {
  return needle === needle.toLowerCase();
}

/** The first of ascending `found` at or after `from`, else the first of all; null for none. */
export function nextMatch(found: number[], from: number): number | null {
  return found.find((index) => index >= from) ?? found[0] ?? null;
}

export function previousMatch(found: number[], from: number): number | null {
  return found.findLast((index) => index <= from) ?? found.at(-1) ?? null;
}

const WORD =
  /\b(?:errors?|\w+_error|exception|traceback|fatal|panic(?:ked)?|segmentation fault|oom|killed)\b/i;
const CLASS = /\b[A-Z]\w*(?:Error|Exception)\b/;
// Lines that only speak of errors: "0 errors", "error: 0.2" of a training step.
const HARMLESS = /\b(?:0|no) errors?\b|\berror[:=]\s*\d*\.?\d+(?:e-?\d+)?\b/i;

/** Index of the first line that looks like an error. */
export function firstError(lines: readonly Line[]): number | null {
  const at = lines.findIndex((line) => looksLikeError(plainText(line.text)));
  return at < 0 ? null : at;
}

export function looksLikeError(text: string): boolean {
  return (WORD.test(text) || CLASS.test(text)) && !HARMLESS.test(text);
}

function matcher(needle: string): (text: string) => boolean {
  return (text) => {
    const [hay, pin] = fold(text, needle);
    return hay.includes(pin);
  };
}

function fold(text: string, needle: string): [string, string] {
  const exact = !ignoresCase(needle);
  // A fold that changes the length (there are a few such letters) would shift the ranges.
  const lower = text.toLowerCase();
  return exact || lower.length !== text.length ? [text, needle] : [lower, needle];
}
