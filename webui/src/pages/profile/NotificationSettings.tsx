import { Button, Checkbox } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { notificationPreferences, sendTest, setPreference } from "@/api/notifications";
import type { NotificationChannel, NotificationPreferences } from "@/api/types";
import { QueryState } from "@/ui/QueryState";
import { notifyError } from "@/ui/notify";
import { reportTest } from "./testReport";
import { Webhooks } from "./Webhooks";
import css from "./NotificationSettings.module.css";

const CHANNELS: { name: NotificationChannel; label: string }[] = [
  { name: "in_page", label: "In the page" },
  { name: "email", label: "E-mail" },
  { name: "webhook", label: "Webhooks" },
];

/** Which events reach the user, and by which channels. */
export function NotificationSettings() {
  const preferences = useQuery(notificationPreferences);
  return (
    <>
      <h2 className={css.title}>Notifications</h2>
      <p className="dim">
        Events of one kind within a minute come as one. A job file can ask for more with{" "}
        <code>jobStatusChangeNotification</code>.
      </p>
      <QueryState query={preferences} what="settings of notifications" rows={6}>
        {(data) => (
          <>
            <Matrix data={data} />
            <Mail data={data} />
          </>
        )}
      </QueryState>
      <Webhooks />
    </>
  );
}

function Matrix({ data }: { data: NotificationPreferences }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (one: { event: string; channel: NotificationChannel; on: boolean }) =>
      setPreference(one.event, one.channel, one.on),
    onSuccess: (now) => queries.setQueryData(notificationPreferences.queryKey, now),
    onError: (error) => notifyError(error, "The setting was not changed"),
  });
  return (
    <table className={css.matrix}>
      <thead>
        <tr>
          <th scope="col">When</th>
          {CHANNELS.map(({ name, label }) => (
            <th key={name} scope="col" className={css.channel}>
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {data.events.map((row) => (
          <tr key={row.event}>
            <th scope="row">{row.description}</th>
            {CHANNELS.map(({ name, label }) => (
              <td key={name} className={css.channel}>
                {row.offered.includes(name) || row.channels.includes(name) ? (
                  <Checkbox
                    aria-label={`${label}: ${row.description}`}
                    checked={row.channels.includes(name)}
                    disabled={!row.offered.includes(name)}
                    onChange={(event) =>
                      change.mutate({
                        event: row.event,
                        channel: name,
                        on: event.currentTarget.checked,
                      })
                    }
                  />
                ) : null}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Mail({ data }: { data: NotificationPreferences }) {
  const problem = data.channels.find((channel) => channel.name === "email")?.problem;
  const test = useMutation({
    mutationFn: () => sendTest("email"),
    onSuccess: (delivery) => reportTest(delivery, `A test was sent to ${data.email}`),
    onError: (error) => notifyError(error, "No test was sent"),
  });
  return (
    <div className={css.mail}>
      <span>{problem || `E-mails go to ${data.email}.`}</span>
      <Button
        variant="default"
        disabled={Boolean(problem)}
        loading={test.isPending}
        onClick={() => test.mutate()}
      >
        Send a test
      </Button>
    </div>
  );
}
