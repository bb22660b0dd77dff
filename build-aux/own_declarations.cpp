// SPDX-License-Identifier: Apache-2.0
// A plugin of clang-tidy 14 (--load): its checks visit the project's own declarations alone. Without it they visit all
// headers of the C++ library again for each file, which takes most of their time, and precompiled ones are read whole.
// What they find stays the same. (Rule: ASTContext::setTraversalScope in clang/AST/ASTContext.h, LLVM 14.)
#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendPluginRegistry.h>

#include <memory>
#include <string>
#include <vector>

namespace {

class OwnDeclarations : public clang::ASTConsumer {
public:
    void Initialize(clang::ASTContext& context) override { sources_ = &context.getSourceManager(); }

    bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
        for (clang::Decl* declaration : group)
            if (!sources_->isInSystemHeader(declaration->getLocation())) own_.push_back(declaration);
        return true;
    }

    void HandleTranslationUnit(clang::ASTContext& context) override { context.setTraversalScope(own_); }

private:
    clang::SourceManager* sources_ = nullptr;
    std::vector<clang::Decl*> own_;
};

class Action : public clang::PluginASTAction {
protected:
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&, llvm::StringRef) override {
        return std::make_unique<OwnDeclarations>();
    }
    bool ParseArgs(const clang::CompilerInstance&, const std::vector<std::string>&) override { return true; }
    ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<Action> registration("own-declarations", "visits the project's declarations alone");

} // namespace
