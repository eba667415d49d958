import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useState } from "react";
import { client } from "@/api/client";
import { useConnection } from "@/api/connection";
import { formatClock } from "@/format/time";
import { live, useLiveStatus } from "@/live/live";
import css from "./ConnectionBanner.module.css";

const RETRY_INTERVAL_MS = 5000;

/** Its answer, or that there is none, is recorded as for every request. */
const ask = () => client.GET("/api/v1/info").catch(() => undefined);

/** Says above the page that the server does not answer, and how old the page's data are. */
export function ConnectionBanner() {
  const { lost, seen } = useConnection();
  const status = useLiveStatus();
  const queries = useQueryClient();
  const [trying, setTrying] = useState(false);

  const onFound = useEffectEvent(() => {
    live.reconnectNow();
    void queries.invalidateQueries({ predicate: ({ state }) => state.status === "error" });
  });

  // The socket closes as soon as a server stops; only a request shows whether none answers.
  useEffect(() => {
    if (status === "waiting") void ask();
  }, [status]);
  useEffect(() => {
    if (!lost) return undefined;
    const timer = setInterval(() => void ask(), RETRY_INTERVAL_MS);
    // Whichever request is answered first: it may be one of the page.
    return () => {
      clearInterval(timer);
      onFound();
    };
  }, [lost]);

  async function retry() {
    setTrying(true);
    await ask();
    setTrying(false);
  }

  if (!lost) return null;
  return (
    <div className={css.banner} role="alert">
      <p>
        <b>No connection to the server.</b>{" "}
        {seen === null
          ? "Nothing could be read yet."
          : `What you see is from ${formatClock(new Date(seen).toISOString())}; nothing can be changed now.`}
      </p>
      <Button size="xs" variant="default" loading={trying} onClick={() => void retry()}>
        Try again
      </Button>
    </div>
  );
}
