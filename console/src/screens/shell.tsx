import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, Outlet, useNavigate } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { useFleetStream } from "../live";
import { menuOf } from "../menu";
import { allOrganizations } from "../organizations";
import { Frame } from "../ui/frame";
import { AccountMenu } from "./account-menu";
import { Finder } from "./finder";

const route = getRouteApi("/inside/o/$slug");

/** The frame of every screen of an organisation: switcher, menu, account. */
export function Shell() {
  const texts = useTexts();
  const { slug } = route.useParams();
  const { user, organization } = route.useRouteContext();
  const state = useFleetStream(organization.id);
  return (
    <Frame
      head={
        <>
          <OrganizationSwitcher />
          <Finder user={user} organization={organization} />
        </>
      }
      menu={menuOf(texts, user, organization).map(({ to, label }) => (
        <Link key={to} to={to} params={{ slug }}>
          {label}
        </Link>
      ))}
      account={
        <AccountMenu name={user.name} rights={user.isSuperAdmin ? "SuperAdmin" : texts.role[organization.role]}>
          <Link to="/o/$slug/me" params={{ slug }} className="button">
            {texts.menu.me}
          </Link>
          {user.isSuperAdmin && (
            <Link to="/admin/organizations" className="button">
              {texts.admin.title}
            </Link>
          )}
        </AccountMenu>
      }
    >
      {(state === "lost" || state === "removed") && (
        <p className="lost" role="status">
          {texts[state]}
        </p>
      )}
      {/* The login opens in another tab, since this one may have a form with unsaved input. */}
      {state === "ended" && (
        <p className="lost" role="status">
          {texts.ended}{" "}
          <Link to="/login" target="_blank">
            {texts.login.submit}
          </Link>
        </p>
      )}
      {/* What a screen keeps, such as the rows of a former list, belongs to the organisation that it was read in. */}
      <Outlet key={organization.id} />
    </Frame>
  );
}

function OrganizationSwitcher() {
  const texts = useTexts();
  const navigate = useNavigate();
  const { user, organization } = route.useRouteContext();
  const all = useQuery({ ...allOrganizations, enabled: user.isSuperAdmin });
  const choices = all.data ?? user.organizations;
  return (
    <label className="switcher">
      {texts.menu.organization}
      <select
        value={organization.slug}
        onChange={(event) => navigate({ to: "/o/$slug/fleet", params: { slug: event.target.value } })}
      >
        {choices.map(({ id, slug, name }) => (
          <option key={id} value={slug}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
