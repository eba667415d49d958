import { UnstyledButton } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { markRead, NOTIFICATIONS } from "@/api/notifications";
import type { Notification } from "@/api/types";
import { RelativeTime } from "@/ui/Time";
import css from "./NotificationRow.module.css";

/** One notification. A click marks it as read, and opens the page about it. */
export function NotificationRow({ row, onOpened }: { row: Notification; onOpened?: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [first] = row.items;
  async function open() {
    onOpened?.();
    if (!row.read) {
      void markRead([row.id]).then(
        () => queries.invalidateQueries({ queryKey: NOTIFICATIONS }),
        () => undefined,
      );
    }
    await navigate({ href: row.count === 1 && first ? first.url : listOf(row) });
  }
  return (
    <li className={css.row} data-unread={row.read ? undefined : true}>
      <UnstyledButton className={css.open} onClick={() => void open()}>
        <span className={css.name}>
          {row.read ? null : <span className="sr-only">Not read: </span>}
          {row.title}
        </span>
        <span className={css.when}>
          <RelativeTime at={row.updated_at} />
        </span>
        <span className={css.text}>{row.count === 1 && first ? first.message : names(row)}</span>
        {row.count === 1 && first?.log_line ? (
          <code className={css.line}>{first.log_line}</code>
        ) : null}
      </UnstyledButton>
    </li>
  );
}

const FEW = 4;

function names(row: Notification): string {
  const shown = row.items.slice(0, FEW).map((item) => item.name || item.message);
  const more = row.count - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more.toLocaleString("en")} more` : "");
}

const STATES: Record<string, string> = {
  "job.failed": "/jobs?state=FAILED",
  "job.succeeded": "/jobs?state=SUCCEEDED",
  "job.stopped": "/jobs?state=STOPPED",
};

function listOf(row: Notification): string {
  if (row.event.startsWith("job.")) return STATES[row.event] ?? "/jobs";
  return row.items[0]?.url ?? "/notifications";
}
