import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { me, sessionEnded } from "@/api/session";
import type { Me } from "@/api/types";
import { live } from "@/live/live";
import { LoginForm } from "@/features/auth/LoginForm";
import { forgetDraft } from "@/features/job-file/storedDraft";
import { Dialog } from "@/ui/Dialog";
import css from "./SessionExpiredDialog.module.css";

/** Asks for the login in a dialog over the page, which keeps what is on it and what was typed. */
export function SessionExpiredDialog({ user }: { user: Me }) {
  const queries = useQueryClient();
  const navigate = useNavigate();

  async function enter(entered: Me) {
    // An answer to what was asked before the login would end the session once more.
    await queries.cancelQueries({ queryKey: me.queryKey });
    queries.setQueryData(sessionEnded.queryKey, false);
    queries.setQueryData(me.queryKey, entered);
    live.reconnectNow();
    if (entered.username === user.username) return queries.invalidateQueries();
    // Another user: nothing that is on the page may be shown to them.
    forgetDraft();
    queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== me.queryKey[0] });
    return navigate({ to: "/jobs" });
  }

  async function leave() {
    forgetDraft();
    queries.clear();
    await navigate({ to: "/login" });
  }

  return (
    <Dialog
      opened
      onClose={() => undefined}
      withCloseButton={false}
      closeOnEscape={false}
      closeOnClickOutside={false}
      title="Your session has ended"
      size={380}
    >
      <p className={css.about}>Log in again to go on where you are. Nothing on the page is lost.</p>
      <LoginForm username={user.username} onEntered={enter} />
      <Button variant="subtle" color="gray" fullWidth mt={8} onClick={() => void leave()}>
        Leave this page
      </Button>
    </Dialog>
  );
}
