import type { Sums } from "@/api/usage";
import { formatHours, formatPercent } from "@/format/numbers";
import type { Column } from "@/ui/table/columns";
import { toHours } from "./days";

interface Measure {
  id: string;
  header: string;
  value: (sums: Sums) => number;
  optional?: boolean | "phone";
}

const MEASURES: Measure[] = [
  { id: "allocated", header: "Allocated", value: (sums) => sums.allocated_s },
  {
    id: "guaranteed",
    header: "Guaranteed",
    value: (sums) => sums.guaranteed_s,
    optional: true,
  },
  { id: "borrowed", header: "Borrowed", value: (sums) => sums.borrowed_s, optional: true },
  { id: "used", header: "Used", value: (sums) => sums.used_s, optional: "phone" },
  { id: "idle", header: "Idle", value: (sums) => sums.idle_s, optional: "phone" },
];

/** Columns of GPU-hours, and the share of the measured time that was used. */
export function sumColumns<T extends Sums>(): Column<T>[] {
  return [
    ...MEASURES.map(({ id, header, value, optional }): Column<T> => ({
      id,
      header,
      width: "minmax(84px, 110px)",
      align: "end",
      optional,
      cell: (row) => <span className="num">{formatHours(toHours(value(row)))}</span>,
      sortValue: value,
    })),
    {
      id: "utilization",
      header: "Utilisation",
      width: "minmax(88px, 110px)",
      align: "end",
      cell: (row) => (
        <span className="num">
          {row.utilization === null ? "unknown" : formatPercent(row.utilization)}
        </span>
      ),
      sortValue: (row) => row.utilization,
    },
  ];
}
