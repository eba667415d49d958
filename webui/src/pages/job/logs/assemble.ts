import type { LogChunk } from "@/api/types";
import { parseAnsi, PLAIN_STYLE, type TextStyle } from "./ansi";

/** A line on the screen. Its text still holds colour sequences; `look` is how it begins. */
export interface Line {
  key: string;
  /** The chunk in which it begins. */
  chunk: LogChunk;
  text: string;
  look: TextStyle;
  /** When it was written, in milliseconds since the epoch. */
  at: number;
}

/** Longer lines are split, because a browser takes long to draw a megabyte in one line. */
export const LONGEST_LINE = 4000;

interface Source {
  line: Line;
  /** A carriage return came: the next text writes over the line. */
  rewind: boolean;
}

/** The key of a line by its place in the chunk in which it begins: a chunk may come in parts. */
export function lineKey(chunk: LogChunk, number: number): string {
  return `${chunk.cursor}:${chunk.offset}:${number}`;
}

/** The number of a line among those of the chunk in which it begins, from 0. */
export function lineNumber({ key }: Line): number {
  return Number.parseInt(key.slice(key.lastIndexOf(":") + 1), 10);
}

/** Makes lines of chunks. Chunks of many tasks arrive mixed and end anywhere; a line stays where
 * its first piece arrived, and later pieces of the same task and stream complete it there. */
export class Assembler {
  readonly lines: Line[] = [];
  private readonly sources = new Map<string, Source>();
  private readonly looks = new Map<string, TextStyle>();

  push(chunk: LogChunk): void {
    const source = `${chunk.attempt_id} ${chunk.stream}`;
    const pieces = chunk.text.split("\n");
    pieces.forEach((piece, number) => {
      const last = number === pieces.length - 1;
      if (!last || piece) this.write(source, chunk, number, piece);
      if (!last) this.endLine(source);
    });
  }

  /** Forgets lines that begin before `cursor`. */
  dropBefore(cursor: number): void {
    const kept = this.lines.findIndex((line) => line.chunk.cursor >= cursor);
    this.lines.splice(0, kept < 0 ? this.lines.length : kept);
  }

  private write(source: string, chunk: LogChunk, number: number, piece: string): void {
    const open = this.sources.get(source) ?? this.begin(source, chunk, number);
    piece.split("\r").forEach((part, number) => {
      if (number > 0) open.rewind = true;
      if (!part) return;
      open.line.text = open.rewind ? part : open.line.text + part;
      open.rewind = false;
    });
    this.wrap(source, open);
  }

  private begin(source: string, chunk: LogChunk, number: number): Source {
    const line = {
      key: lineKey(chunk, number),
      chunk,
      text: "",
      look: this.looks.get(source) ?? PLAIN_STYLE,
      at: Date.parse(chunk.at) + (chunk.line_times[number] ?? 0) / 1000,
    };
    const open = { line, rewind: false };
    this.lines.push(line);
    this.sources.set(source, open);
    return open;
  }

  private wrap(source: string, open: Source): void {
    let rest = open.line;
    for (let part = 1; rest.text.length > LONGEST_LINE; part += 1) {
      const cut = cutPoint(rest.text);
      const more = {
        ...rest,
        key: `${open.line.key}+${part}`,
        text: rest.text.slice(cut),
        look: parseAnsi(rest.text.slice(0, cut), rest.look).end,
      };
      rest.text = rest.text.slice(0, cut);
      this.lines.splice(this.lines.lastIndexOf(rest) + 1, 0, more);
      rest = more;
    }
    if (rest !== open.line) this.sources.set(source, { line: rest, rewind: open.rewind });
  }

  private endLine(source: string): void {
    const open = this.sources.get(source);
    if (!open) return;
    this.sources.delete(source);
    this.looks.set(source, parseAnsi(open.line.text, open.line.look).end);
  }
}

/** Where to cut a long line: never inside an escape sequence. */
function cutPoint(text: string): number {
  const escape = text.lastIndexOf("\u001b", LONGEST_LINE - 1);
  return escape > LONGEST_LINE - 32 ? escape : LONGEST_LINE;
}

/** The text of a whole set of chunks as lines. */
export function assemble(chunks: LogChunk[]): Assembler {
  const assembler = new Assembler();
  for (const chunk of chunks) assembler.push(chunk);
  return assembler;
}
