import {
  createColumnHelper,
  createSortedRowModel,
  rowSortingFeature,
  tableFeatures,
} from "@tanstack/react-table";
import type { ReactNode } from "react";

export type SortValue = string | number | null | undefined;

/** One column of a table of `T`. */
export interface Column<T> {
  id: string;
  header: ReactNode;
  /** The header is for screen readers alone: the cells speak for themselves. */
  hiddenHeader?: boolean;
  /** CSS grid track, for example "minmax(120px, 2fr)" or "80px". */
  width: string;
  align?: "end";
  /** Stays in sight at the right edge while the table is scrolled sideways. */
  sticky?: boolean;
  /** Left out where the screen is narrow: of a window at one side, or of a phone alone. */
  optional?: boolean | "phone";
  cell: (row: T) => ReactNode;
  /** What to order by; absent: the column cannot be ordered by. Nothing (null) comes last. */
  sortValue?: (row: T) => SortValue;
  /** What a file of the table has here; absent: `sortValue`, and without that no such column. */
  exportValue?: (row: T) => SortValue;
}

export const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
});

export function compare(a: SortValue, b: SortValue): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Our columns as TanStack Table knows them. */
export function toTableColumns<T extends object>(columns: Column<T>[]) {
  const helper = createColumnHelper<typeof features, T>();
  return helper.columns(
    columns.map((column) =>
      helper.accessor((row: T) => column.sortValue?.(row) ?? undefined, {
        id: column.id,
        header: column.id,
        cell: (context) => column.cell(context.row.original),
        enableSorting: column.sortValue !== undefined,
        sortUndefined: "last",
        sortFn: (a, b, id) => compare(a.getValue<SortValue>(id), b.getValue<SortValue>(id)),
      }),
    ),
  );
}

export function gridOf(columns: { width: string }[]): string {
  return columns.map((column) => column.width).join(" ");
}
