import { Button, Popover, SegmentedControl } from "@mantine/core";
import { dayParam } from "@/format/searchParams";
import { formatDateTime } from "@/format/time";
import { DayInput } from "@/ui/DayInput";
import { Icon } from "@/ui/Icon";
import { isSpan, isTime } from "./searchParams";
import css from "./JobFilters.module.css";

type Times = { since?: string | undefined; until?: string | undefined };

const SPANS = [
  { value: "", label: "Any time" },
  { value: "24h", label: "24 hours" },
  { value: "7d", label: "7 days" },
  { value: "30d", label: "30 days" },
];

/** When the jobs were submitted: a span before now, or from one day to another. */
export function TimeFilter({
  since,
  until,
  onChange,
}: Times & { onChange: (times: Times) => void }) {
  const isDay = since !== undefined && !isSpan(since);
  return (
    <Popover position="bottom-start" trapFocus>
      <Popover.Target>
        <Button
          variant="default"
          leftSection={<Icon name="clock" size={14} />}
          aria-label={`Submitted: ${timesLabel(since, until)}`}
          data-filtered={since || until ? true : undefined}
          className={css.button}
        >
          {timesLabel(since, until)}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={css.times}>
          <SegmentedControl
            aria-label="Submitted in the last"
            value={until || isDay ? "days" : (since ?? "")}
            onChange={(span) => onChange({ since: span || undefined, until: undefined })}
            data={SPANS}
          />
          <div className={css.days}>
            <DayInput
              label="From"
              value={dayParam(since)}
              onChange={(day) => onChange({ since: day, until })}
            />
            <DayInput
              label="To, included"
              value={dayParam(until)}
              onChange={(day) => onChange({ since: isDay ? since : undefined, until: day })}
            />
          </div>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

export function timesLabel(since: string | undefined, until: string | undefined): string {
  if (until) return since ? `${label(since)} – ${label(until)}` : `until ${label(until)}`;
  if (!since) return "Any time";
  if (!isSpan(since)) return `since ${label(since)}`;
  const span = SPANS.find(({ value }) => value === since);
  return `last ${span?.label ?? since}`;
}

function label(bound: string): string {
  if (isSpan(bound)) return `${bound} ago`;
  return isTime(bound) ? formatDateTime(bound) : bound;
}
