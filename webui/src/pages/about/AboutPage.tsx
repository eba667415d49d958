import { useQuery } from "@tanstack/react-query";
import { nodes } from "@/api/cluster";
import { info } from "@/api/session";
import { pluralize } from "@/format/numbers";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { ErrorState } from "@/ui/EmptyState";
import { PageHeader } from "@/ui/PageHeader";
import { Section } from "@/ui/Section";
import { SkeletonRows } from "@/ui/Skeleton";
import { countVersions } from "./countVersions";
import css from "./AboutPage.module.css";

/** Shows which versions run: of the server, and of what each node has. */
export function AboutPage() {
  const server = useQuery(info);
  const all = useQuery(nodes);
  const error = server.error ?? all.error;
  const retry = () => void Promise.all([server.refetch(), all.refetch()]);
  return (
    <>
      <PageHeader title="About" />
      <div className={css.page}>
        {error ? <ErrorState error={error} what="list of versions" retry={retry} /> : null}
        {!error && (!server.data || !all.data) ? <SkeletonRows rows={3} /> : null}
        {server.data && all.data ? (
          <>
            <Section title="Server">
              <DescriptionList>
                <DescriptionItem name="Version">{server.data.version}</DescriptionItem>
                <DescriptionItem name="API">
                  <a className="link" href="/api/v1/docs" target="_blank" rel="noopener">
                    Documentation
                  </a>
                </DescriptionItem>
              </DescriptionList>
            </Section>
            <Section title={`Nodes (${all.data.length.toLocaleString("en")})`}>
              {all.data.length === 0 ? <p className="dim">No node has joined yet.</p> : null}
              <dl className={css.versions}>
                {countVersions(all.data).map(({ name, versions }) => (
                  <div key={name}>
                    <dt>{name}</dt>
                    <dd>
                      {versions.map(({ version, count }) => (
                        <span key={version}>
                          <code>{version}</code>{" "}
                          <span className="dim">on {pluralize(count, "node")}</span>
                        </span>
                      ))}
                    </dd>
                  </div>
                ))}
              </dl>
            </Section>
          </>
        ) : null}
      </div>
    </>
  );
}
