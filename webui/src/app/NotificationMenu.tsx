import { ActionIcon, Popover, UnstyledButton } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { markRead, newestNotifications, NOTIFICATIONS, unreadCount } from "@/api/notifications";
import { NotificationRow } from "@/features/notifications/NotificationRow";
import { useLiveQueries, usePoll } from "@/live/live";
import { Icon } from "@/ui/Icon";
import { QueryState } from "@/ui/QueryState";
import { notifyError } from "@/ui/notify";
import css from "./NotificationMenu.module.css";

const MOST_SHOWN = 99;

/** How many notifications were not read, and the newest of them on a click; kept up by the live
 * socket. */
export function NotificationMenu() {
  const [open, setOpen] = useState(false);
  const { data: unread = 0 } = useQuery({ ...unreadCount, refetchInterval: usePoll(30_000) });
  useLiveQueries("notifications", "", [NOTIFICATIONS]);
  return (
    <Popover
      opened={open}
      onChange={setOpen}
      position="bottom-start"
      width={360}
      trapFocus
      returnFocus
      shadow="md"
    >
      <Popover.Target>
        <ActionIcon
          className={css.button}
          aria-label={unread > 0 ? `Notifications, ${unread} not read` : "Notifications"}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          <Icon name="notification" />
          {unread > 0 ? (
            <span className={css.count} aria-hidden="true">
              {unread > MOST_SHOWN ? `${MOST_SHOWN}+` : unread}
            </span>
          ) : null}
        </ActionIcon>
      </Popover.Target>
      <Popover.Dropdown className={css.panel} aria-label="Notifications">
        <LatestNotifications unread={unread} onDone={() => setOpen(false)} />
      </Popover.Dropdown>
    </Popover>
  );
}

function LatestNotifications({ unread, onDone }: { unread: number; onDone: () => void }) {
  const queries = useQueryClient();
  const list = useQuery(newestNotifications);
  async function readAll() {
    try {
      await markRead();
    } catch (error) {
      return notifyError(error, "Nothing was marked as read");
    }
    await queries.invalidateQueries({ queryKey: NOTIFICATIONS });
  }
  return (
    <>
      <header className={css.head}>
        <h2 className={css.title}>Notifications</h2>
        {unread > 0 ? (
          <UnstyledButton className="link" onClick={() => void readAll()}>
            Mark all as read
          </UnstyledButton>
        ) : null}
      </header>
      <QueryState query={list} what="list of notifications" rows={3}>
        {(rows) =>
          rows.length === 0 ? (
            <p className={css.none}>There are no notifications yet.</p>
          ) : (
            <ul className={css.list}>
              {rows.map((row) => (
                <NotificationRow key={row.id} row={row} onOpened={onDone} />
              ))}
            </ul>
          )
        }
      </QueryState>
      <footer className={css.foot}>
        <Link to="/notifications" className="link" onClick={onDone}>
          All notifications
        </Link>
        <Link
          to="/settings/$section"
          params={{ section: "notifications" }}
          className="link"
          onClick={onDone}
        >
          Settings
        </Link>
      </footer>
    </>
  );
}
