import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter, useSearch } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";
import { explain } from "@/api/errors";
import { info, login, me } from "@/api/session";
import { live } from "@/live/live";
import { Logo } from "@/ui/Logo";
import { Honeycomb } from "./Honeycomb";
import { localPath } from "./localPath";
import css from "./LoginPage.module.css";

export function LoginPage() {
  useDocumentTitle("Log in · Skep");
  const { data: platform } = useQuery(info);
  return (
    <div className={css.page}>
      <Honeycomb />
      <main className={css.card}>
        <div className={css.brand}>
          <Logo size={34} />
          <div>
            <h1 className={css.name}>{platform?.name ?? "Skep"}</h1>
            <p className="dim">One GPU cluster, many hives</p>
          </div>
        </div>
        <LoginForm />
      </main>
      <footer className={css.foot}>{platform ? `Version ${platform.version}` : " "}</footer>
    </div>
  );
}

function LoginForm() {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const entry = useEntry();

  function enter(event: FormEvent) {
    event.preventDefault();
    entry.mutate({ username, password });
  }

  return (
    <form onSubmit={enter} className={css.form}>
      <TextInput
        label="User name"
        name="username"
        size="sm"
        autoComplete="username"
        autoCapitalize="none"
        spellCheck={false}
        autoFocus
        required
        withAsterisk={false}
        value={username}
        onChange={(event) => setUsername(event.currentTarget.value)}
      />
      <PasswordInput
        label="Password"
        name="password"
        size="sm"
        autoComplete="current-password"
        required
        withAsterisk={false}
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
      />
      {entry.error ? (
        <p className={css.error} role="alert">
          {explain(entry.error)}
        </p>
      ) : null}
      <Button type="submit" size="sm" loading={entry.isPending} fullWidth>
        Log in
      </Button>
    </form>
  );
}

/** Logs in, then goes to where the visitor was going. */
function useEntry() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const router = useRouter();
  const { next } = useSearch({ from: "/login" });
  return useMutation({
    mutationFn: (entry: { username: string; password: string }) =>
      login(entry.username, entry.password),
    onSuccess: async (user) => {
      queries.clear();
      queries.setQueryData(me.queryKey, user);
      live.hurry();
      const place = localPath(next);
      if (place) router.history.push(place);
      else await navigate({ to: "/jobs" });
    },
  });
}
