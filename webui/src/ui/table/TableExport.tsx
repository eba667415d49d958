import { fileAddress } from "@/api/exports";
import { Icon } from "../Icon";
import type { Column } from "./columns";
import { csvOf, saveText } from "./csv";
import css from "./table.module.css";

/** How a table is downloaded: "page", by a button of the page that it is the content of; `list`, by
 * the API, which has all pages of it; `rows`, as it is shown, to a file of this name. */
export type TableFile = "page" | { list: string; filter?: object } | { rows: string };

interface Props<T> {
  file: TableFile;
  label: string;
  columns: Column<T>[];
  rows: T[];
}

/** What stands below a table to download it. */
export function TableExport<T>({ file, label, columns, rows }: Props<T>) {
  if (file === "page") return null;
  return "list" in file ? (
    <ListExport {...file} label={label} />
  ) : (
    <RowsExport name={file.rows} label={label} columns={columns} rows={rows} />
  );
}

interface ListProps {
  /** Path of the list below /api/v1/. */
  list: string;
  filter?: object;
  label: string;
}

/** Below a list within a page: downloads all of its rows. */
export function ListExport({ list, filter = {}, label }: ListProps) {
  return (
    <p className={css.export}>
      <a href={fileAddress(list, filter)} download aria-label={`Export CSV: ${label}`}>
        <Icon name="download" size={12} />
        Export CSV
      </a>
    </p>
  );
}

interface RowsProps<T> extends Omit<Props<T>, "file"> {
  name: string;
}

/** Below a table that no list of the API has: downloads the rows that are shown. */
export function RowsExport<T>({ name, label, columns, rows }: RowsProps<T>) {
  return (
    <p className={css.export}>
      <button
        type="button"
        aria-label={`Export CSV: ${label}`}
        onClick={() => saveText(`${name}.csv`, csvOf(columns, rows))}
      >
        <Icon name="download" size={12} />
        Export CSV
      </button>
    </p>
  );
}
