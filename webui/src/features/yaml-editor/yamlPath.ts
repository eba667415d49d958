import type { Path } from "./schema/types";

export interface YamlPosition {
  /** The mapping (or list item) in which the cursor's line stands. */
  path: Path;
  /** The line's key, once it is written with its colon. */
  key: string | null;
}

interface Level {
  column: number;
  name: string | number;
}

const LINE = /^(\s*)((?:- +)*)(?:([\w.-]+|"[^"]*"|'[^']*'):(?:\s|$))?/;

/** Where in the document a position is, derived from the indentation alone: while one types, the
 * document seldom parses. */
export function positionAt(text: string, position: number): YamlPosition {
  const lines = text.slice(0, position).split("\n");
  const current = lines.pop() ?? "";
  const levels: Level[] = [];
  for (const line of lines) {
    if (line.trim() && !line.trim().startsWith("#")) enter(levels, line, true);
  }
  const key = enter(levels, current, false);
  return { path: levels.map((level) => level.name), key };
}

/** Leaves the levels that the line ends and enters those it opens; its key only if `whole`. */
function enter(levels: Level[], line: string, whole: boolean): string | null {
  const [, space = "", dashes = "", quoted] = LINE.exec(line) ?? [];
  const key = quoted?.replace(/^["']|["']$/g, "") ?? null;
  let column = space.length;
  for (const dash of dashes.match(/- +/g) ?? []) {
    // A list may stand in the same column as the key that holds it.
    leave(levels, (level) => level.column > column || isItem(level, column));
    levels.push({ column, name: 0 });
    column += dash.length;
  }
  leave(levels, (level) => level.column >= column);
  if (whole && key !== null) levels.push({ column, name: key });
  return key;
}

function leave(levels: Level[], over: (level: Level) => boolean): void {
  for (let last = levels.at(-1); last && over(last); last = levels.at(-1)) levels.pop();
}

function isItem(level: Level, column: number): boolean {
  return level.column === column && level.name === 0;
}
