import { Button, Switch } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { markRead, notificationPage, NOTIFICATIONS, unreadCount } from "@/api/notifications";
import { NotificationRow } from "@/features/notifications/NotificationRow";
import { EmptyPage, EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { Pagination } from "@/ui/Pagination";
import { QueryState } from "@/ui/QueryState";
import { notifyError } from "@/ui/notify";
import css from "./NotificationsPage.module.css";

/** All notifications of the last 30 days. The menu of the shell keeps them up to date. */
export function NotificationsPage() {
  const { unread = false, cursor } = useSearch({ from: "/shell/notifications" });
  const navigate = useNavigate({ from: "/notifications" });
  const queries = useQueryClient();
  const list = useQuery(notificationPage(unread, cursor));
  const { data: count = 0 } = useQuery(unreadCount);
  const go = (next: string | undefined) =>
    void navigate({ search: (old) => ({ ...old, cursor: next }) });
  const onFirstPage = cursor ? () => go(undefined) : undefined;
  const reading = useMutation({
    mutationFn: () => markRead(),
    onError: (error) => notifyError(error, "Nothing was marked as read"),
    onSettled: () => queries.invalidateQueries({ queryKey: NOTIFICATIONS }),
  });
  return (
    <>
      <PageHeader title="Notifications" note="Of the last 30 days">
        <Switch
          label="Not read"
          checked={unread}
          onChange={(event) =>
            void navigate({ search: { unread: event.currentTarget.checked || undefined } })
          }
        />
        <Button
          variant="default"
          loading={reading.isPending}
          disabled={count === 0}
          onClick={() => reading.mutate()}
        >
          Mark all as read
        </Button>
        <ExportButton list="notifications" filter={{ unread }} />
        <LinkButton variant="default" to="/settings/$section" params={{ section: "notifications" }}>
          Settings
        </LinkButton>
      </PageHeader>
      <QueryState query={list} what="list of notifications" onFirstPage={onFirstPage}>
        {(page) =>
          page.results.length === 0 && onFirstPage ? (
            <EmptyPage onFirstPage={onFirstPage} />
          ) : page.results.length === 0 ? (
            <EmptyState title={unread ? "You have read them all" : "No notifications yet"}>
              When a job of yours fails, finishes or is preempted, it stands here.
            </EmptyState>
          ) : (
            <div className={css.page}>
              <ul className={css.list} aria-label="Notifications">
                {page.results.map((row) => (
                  <NotificationRow key={row.id} row={row} />
                ))}
              </ul>
              <Pagination page={page} onGo={go} />
            </div>
          )
        }
      </QueryState>
    </>
  );
}
