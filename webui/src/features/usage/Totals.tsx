import type { Sums } from "@/api/usage";
import { formatHours, formatPercent } from "@/format/numbers";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { toHours } from "./days";

/** The sums of a span of time, in GPU-hours. */
export function Totals({ sums }: { sums: Sums }) {
  const parts: [string, number][] = [
    ["Allocated", sums.allocated_s],
    ["Guaranteed", sums.guaranteed_s],
    ["Borrowed", sums.borrowed_s],
    ["Used", sums.used_s],
    ["Idle", sums.idle_s],
  ];
  return (
    <DescriptionList>
      {parts.map(([name, seconds]) => (
        <DescriptionItem key={name} name={name}>
          <span className="num">{formatHours(toHours(seconds))} h</span>
        </DescriptionItem>
      ))}
      {sums.utilization === null ? null : (
        <DescriptionItem name="Utilisation">
          <span className="num">{formatPercent(sums.utilization)}</span>
        </DescriptionItem>
      )}
    </DescriptionList>
  );
}
