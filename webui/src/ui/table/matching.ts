import type { Column } from "./columns";

/** The rows that have each word of the text in one of their columns, upper and lower case alike. */
export function matching<T>(rows: T[], columns: Column<T>[], text: string): T[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  const values = columns.flatMap(({ exportValue, sortValue }) => exportValue ?? sortValue ?? []);
  return rows.filter((row) => {
    const content = values.map((value) => String(value(row) ?? "").toLowerCase());
    return words.every((word) => content.some((each) => each.includes(word)));
  });
}
