import { ActionIcon } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { announcements, dismissAnnouncement } from "@/api/cluster";
import type { Announcement } from "@/api/types";
import { formatDateTime } from "@/format/time";
import { Icon } from "@/ui/Icon";
import { notifyError } from "@/ui/notify";
import css from "./Announcements.module.css";

/** Shows above every page what administrators have announced and the user has not dismissed. */
export function Announcements() {
  const { data } = useQuery(announcements);
  const shown = data?.filter((row) => !row.dismissed);
  if (!shown?.length) return null;
  return (
    <section aria-label="Announcements">
      <ul className={css.list} aria-label="Announcements">
        {shown.map((row) => (
          <Row key={row.id} row={row} />
        ))}
      </ul>
    </section>
  );
}

function Row({ row }: { row: Announcement }) {
  const queries = useQueryClient();
  const dismissal = useMutation({
    mutationFn: () => dismissAnnouncement(row.id),
    onError: (error) => notifyError(error, "It was not dismissed"),
    onSettled: () => queries.invalidateQueries({ queryKey: announcements.queryKey }),
  });
  return (
    <li className={row.severity === "warning" ? css.warning : css.info}>
      <span className={css.text}>
        {row.message}
        {row.expires_at ? ` (until ${formatDateTime(row.expires_at)})` : null}
      </span>
      <ActionIcon
        size="sm"
        aria-label={`Dismiss: ${row.message.slice(0, 40)}`}
        loading={dismissal.isPending}
        onClick={() => dismissal.mutate()}
      >
        <Icon name="cross" size={12} />
      </ActionIcon>
    </li>
  );
}
