import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useState } from "react";
import { client } from "@/api/client";
import { useConnection } from "@/api/connection";
import { clock } from "@/format/time";
import { live, useLiveStatus } from "@/live/live";
import css from "./NoConnection.module.css";

const AGAIN_MS = 5000;

/** Says above the page that the server does not answer, and from when that is what stands there. */
export function NoConnection() {
  const { lost, seen } = useConnection();
  const status = useLiveStatus();
  const queries = useQueryClient();
  const [trying, setTrying] = useState(false);

  const ask = useEffectEvent(async () => {
    const answer = await client.GET("/api/v1/info").catch(() => null);
    if (!answer || !lost) return;
    live.hurry();
    void queries.invalidateQueries();
  });

  // The socket tells of a stop at once; whether the server itself is gone, a request tells.
  useEffect(() => {
    if (status === "waiting") void ask();
  }, [status]);
  useEffect(() => {
    if (!lost) return undefined;
    const timer = setInterval(() => void ask(), AGAIN_MS);
    return () => clearInterval(timer);
  }, [lost]);

  async function retry() {
    setTrying(true);
    await client.GET("/api/v1/info").then(
      () => {
        live.hurry();
        return queries.invalidateQueries();
      },
      () => undefined,
    );
    setTrying(false);
  }

  if (!lost) return null;
  return (
    <div className={css.banner} role="alert">
      <p>
        <b>No connection to the server.</b>{" "}
        {seen === null
          ? "Nothing could be read yet."
          : `What you see is from ${clock(new Date(seen).toISOString())}; nothing can be changed now.`}
      </p>
      <Button size="xs" variant="default" loading={trying} onClick={() => void retry()}>
        Try again
      </Button>
    </div>
  );
}
