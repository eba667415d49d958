import { useDocumentTitle } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter, useSearch } from "@tanstack/react-router";
import { info, me } from "@/api/session";
import type { Me } from "@/api/types";
import { live } from "@/live/live";
import { LoginFields } from "./LoginFields";
import { LoginFrame } from "./LoginFrame";
import { localPath } from "./localPath";

export function LoginPage() {
  useDocumentTitle("Log in · Skep");
  const { data: platform } = useQuery(info);
  const enter = useEntry();
  return (
    <LoginFrame
      name={platform?.name ?? "Skep"}
      foot={platform ? `Version ${platform.version}` : " "}
    >
      <LoginFields onEntered={enter} />
    </LoginFrame>
  );
}

/** Goes to where the visitor was going. */
function useEntry() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const router = useRouter();
  const { next } = useSearch({ from: "/login" });
  return async (user: Me) => {
    queries.clear();
    queries.setQueryData(me.queryKey, user);
    live.hurry();
    const place = localPath(next);
    if (place) router.history.push(place);
    else await navigate({ to: "/jobs" });
  };
}
