import { useDocumentTitle } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter, useSearch } from "@tanstack/react-router";
import { info, me } from "@/api/session";
import type { Me } from "@/api/types";
import { LoginForm } from "@/features/auth/LoginForm";
import { readDraft } from "@/features/job-file/storedDraft";
import { live } from "@/live/live";
import { LinkButton } from "@/ui/LinkButton";
import { ReadNote } from "@/ui/ReadNote";
import { LoginFrame } from "./LoginFrame";
import { SingleSignOn } from "./SingleSignOn";

export function LoginPage() {
  useDocumentTitle("Log in · Skep");
  const query = useQuery(info);
  const { data: platform } = query;
  const enter = useAfterLogin();
  const { next, refused } = useSearch({ from: "/login" });
  return (
    <LoginFrame
      name={platform?.name ?? "Skep"}
      foot={platform ? `Version ${platform.version}` : " "}
    >
      <ReadNote query={query} what="ways to log in" />
      <SingleSignOn platform={platform} next={safeLocalPath(next)} refused={refused} />
      <LoginForm onEntered={enter} />
      {platform?.password_recovery ? (
        <LinkButton to="/forgot-password" variant="subtle" size="sm" fullWidth mt={6}>
          Forgot the password?
        </LinkButton>
      ) : null}
    </LoginFrame>
  );
}

/** Goes to where the visitor was going. */
function useAfterLogin() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const router = useRouter();
  const { next } = useSearch({ from: "/login" });
  return async (user: Me) => {
    // Removes one of whoever was here before.
    readDraft(user.username);
    queries.clear();
    queries.setQueryData(me.queryKey, user);
    live.reconnectNow();
    const place = safeLocalPath(next);
    if (place) router.history.push(place);
    else await navigate({ to: "/" });
  };
}

/** `next` if it is a page of this site: an address elsewhere must not be followed after a login. */
export function safeLocalPath(next: string | undefined): string | undefined {
  if (!next || !URL.canParse(next, location.origin)) return undefined;
  const address = new URL(next, location.origin);
  if (address.origin !== location.origin || address.pathname === "/login") return undefined;
  return address.pathname + address.search;
}
