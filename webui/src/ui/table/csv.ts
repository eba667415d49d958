import type { Column, SortValue } from "./columns";

/** Rows as a CSV file (RFC 4180), with the columns that have a value. A text that a spreadsheet would
 * take for a formula begins with an apostrophe, as in the files of the server. */
export function csvOf<T>(columns: Column<T>[], rows: T[]): string {
  const valued = columns.flatMap(({ id, header, exportValue, sortValue }) => {
    const value = exportValue ?? sortValue;
    return value ? [{ title: typeof header === "string" ? header : id, value }] : [];
  });
  const lines = [
    valued.map(({ title }) => field(title)),
    ...rows.map((row) => valued.map(({ value }) => field(value(row)))),
  ];
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

function field(value: SortValue): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const safe = /^ *[=+\-@\t\r\n＝＋－＠]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Has the browser save a text as a file. */
export function saveText(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
