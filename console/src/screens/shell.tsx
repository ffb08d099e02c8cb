import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, Outlet, useNavigate } from "@tanstack/react-router";
import { api, dataOf } from "../api/client";
import { noteSession } from "../api/session-clock";
import { LANGUAGES, type Language, setLanguage, useLanguage, useTexts } from "../i18n";
import { useFleetStream } from "../live";
import { menuOf } from "../menu";
import { allOrganizations } from "../organizations";
import { setTheme, THEMES, type Theme, useTheme } from "../theme";
import { Mark } from "../ui/mark";
import { Finder } from "./finder";

const route = getRouteApi("/inside/o/$slug");

/** The frame of every screen of an organisation: switcher, menu, account. */
export function Shell() {
  const texts = useTexts();
  const { slug } = route.useParams();
  const { user, organization } = route.useRouteContext();
  const state = useFleetStream(organization.id);
  return (
    <div className="shell">
      <a className="skip" href="#content">
        {texts.menu.skip}
      </a>
      <header className="sidebar">
        <p className="brand">
          <Mark /> {texts.appName}
        </p>
        <OrganizationSwitcher />
        <Finder />
        <nav aria-label={texts.menu.label}>
          {menuOf(texts, user, organization).map(({ to, label }) => (
            <Link key={to} to={to} params={{ slug }}>
              {label}
            </Link>
          ))}
        </nav>
        <AccountMenu />
      </header>
      <main id="content" tabIndex={-1}>
        {state === "lost" && (
          <p className="lost" role="status">
            {texts.lost}
          </p>
        )}
        <Outlet />
      </main>
    </div>
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

function AccountMenu() {
  const texts = useTexts();
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const language = useLanguage();
  const theme = useTheme();
  const { user, organization } = route.useRouteContext();
  const logout = useMutation({
    mutationFn: () => dataOf(api.POST("/api/v1/auth/logout", {})),
    onSuccess: async () => {
      noteSession(false);
      await navigate({ to: "/login", search: {} });
      queryClient.clear();
    },
  });
  return (
    <details className="account">
      <summary>
        {user.name}
        <span className="fine">{user.isSuperAdmin ? "SuperAdmin" : texts.role[organization.role]}</span>
      </summary>
      <label>
        {texts.menu.theme}
        <select value={theme} onChange={(event) => setTheme(event.target.value as Theme)}>
          {THEMES.map((one) => (
            <option key={one} value={one}>
              {texts.menu.themes[one]}
            </option>
          ))}
        </select>
      </label>
      <label>
        {texts.menu.language}
        <select value={language} onChange={(event) => setLanguage(event.target.value as Language)}>
          {Object.entries(LANGUAGES).map(([code, name]) => (
            <option key={code} value={code} lang={code}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <Link to="/o/$slug/me" params={{ slug: organization.slug }} className="button">
        {texts.menu.me}
      </Link>
      <button type="button" onClick={() => logout.mutate()} disabled={logout.isPending}>
        {texts.menu.logout}
      </button>
    </details>
  );
}
